"""The files of a configuration tree: what is read, what is written, what is left alone."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from controlplane.configs.gitops.files import read_tree, write_tree
from controlplane.configs.gitops.plans import tree_of
from controlplane.configs.gitops.rendering import rendered
from controlplane.core.errors import InvalidInput
from controlplane.orgs.services import node_archive
from tests.configs.gitops_support import Files, state
from tests.configs.support import put
from tests.factories import Tree

pytestmark = pytest.mark.django_db


def test_export__an_organization__one_file_a_node_in_folders_by_tree(files: Files) -> None:
    found = sorted(one.relative_to(files.folder).as_posix() for one in files.folder.rglob("*") if one.is_file())
    assert found == [
        "demo/engineering/node.yaml",
        "demo/engineering/payments/node.yaml",
        "demo/engineering/platform/node.yaml",
        "demo/node.yaml",
    ]
    assert files.path("demo").read_text("utf-8") == (
        "format: 1\norganization: demo\nslug: demo\nname: Demo\nkind: org\ndocument:\n  limits:\n    max_turns: 10\n"
    )
    assert files.path("demo", "engineering", "platform").read_text("utf-8") == (
        "format: 1\nslug: platform\nname: Platform\nkind: team\ndocument: {}\n"
    )


def test_export__again__writes_nothing_and_plans_nothing(files: Files) -> None:
    assert files.export() == (0, [])
    before = state(files.tree)
    applied = files.plan(prune=True)
    assert applied.plan.changes == ()
    assert "no changes" in rendered(applied)
    assert files.apply().plan.changes == ()
    assert state(files.tree) == before


def test_export__file_that_says_the_same_with_comments__left_as_it_is(files: Files) -> None:
    path = files.path("demo")
    text = (
        "# why\norganization: demo\nkind: org\nname: Demo\nslug: demo\nformat: 1\ndocument: {limits: {max_turns: 10}}\n"
    )
    path.write_text(text, "utf-8")
    assert files.export() == (0, [])
    put(files.tree.root, {"limits": {"max_turns": 11}})
    assert files.export() == (1, [])
    assert "# why" not in path.read_text("utf-8")


def test_export__archived_node__reads_back_as_it_is(files: Files) -> None:
    node_archive(actor=files.tree.system, node=files.tree.payments)
    files.export()
    assert "archived: true" in files.path("demo", "engineering", "payments").read_text("utf-8")
    assert files.plan().plan.changes == ()


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"kind": "org"}, "kind"),
        ({"kind": "group"}, "kind_fixed"),
        ({"slug": "other"}, "folder"),
        ({"slug": "Not a slug"}, "slug"),
        ({"name": 1}, "name"),
        ({"archived": "no"}, "archived"),
        ({"document": []}, "document"),
        ({"documnet": {}}, "unknown_member"),
        ({"organization": "demo"}, "organization"),
        ({"policies": [{"kind": "locked"}]}, "reserved"),
        ({"grants": ["X"]}, "reserved"),
        ({"format": 2}, "format"),
    ],
)
def test_read__file_that_breaks_a_rule__named_with_the_rule(files: Files, members: dict[str, Any], code: str) -> None:
    files.edit("demo", "engineering", "payments", **members)
    error = files.refused()
    assert error.code == "invalid_tree"
    assert code in {one.code for one in error.errors}
    assert {one.pointer for one in error.errors} == {"demo/engineering/payments/node.yaml"}


def test_read__no_document__is_no_empty_one(files: Files) -> None:
    path = files.path("demo", "engineering", "payments")
    path.write_text("slug: payments\nname: Payments\nkind: team\n", "utf-8")
    assert [one.code for one in files.refused().errors] == ["document"]


def test_read__odd_things_in_the_folder__refused_or_none_of_ours(files: Files) -> None:
    (files.folder / "README.md").write_text("hello")
    (files.folder / ".git").mkdir()
    (files.folder / ".git" / "x.yaml").write_text("a: [")
    (files.folder / "docs").mkdir()
    assert files.apply().plan.changes == ()

    team = files.path("demo", "engineering", "payments")
    team.with_name("nodes.yaml").write_text("a: 1")
    (files.folder / "demo" / "lost" / "team").mkdir(parents=True)
    (files.folder / "demo" / "lost" / "team" / "node.yaml").write_text("slug: team")
    files.path("demo", "engineering", "platform").write_bytes(b"name: \xff")
    (files.folder / "demo" / "link").symlink_to(files.folder)
    found = {(one.pointer, one.code) for one in files.refused().errors}
    assert found == {
        ("demo/engineering/payments/nodes.yaml", "unknown_file"),
        ("demo/lost/team/node.yaml", "no_parent"),
        ("demo/engineering/platform/node.yaml", "not_utf8"),
        ("demo/link", "link"),
    }


def test_read__one_slug_in_two_places__refused(files: Files) -> None:
    files.edit("demo", "payments", name="Twice", document={})
    error = files.refused()
    assert [(one.pointer, one.code) for one in error.errors] == [("demo/payments/node.yaml", "slug_taken")]


def test_read__nothing_or_several_organizations__asks_which(files: Files, other_tree: Tree, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="it has: none"):
        read_tree(tmp_path / "demo" / "engineering" / "payments")
    write_tree(files.folder, tree_of(other_tree.organization))
    with pytest.raises(InvalidInput, match="Name the organization; it has: demo, rival"):
        read_tree(files.folder)
    assert read_tree(files.folder, organization="rival").organization == "rival"


def test_export__stale_files__refused_or_pruned(files: Files) -> None:
    files.edit("demo", "engineering", "gone", document={})
    with pytest.raises(InvalidInput) as caught:
        files.export()
    assert (caught.value.code, caught.value.errors[0].pointer) == ("stale_files", "demo/engineering/gone/node.yaml")
    assert files.export(prune=True) == (0, ["demo/engineering/gone/node.yaml"])
    assert not files.path("demo", "engineering", "gone").parent.exists()


def test_export__link_in_the_way__not_followed(files: Files, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    shutil.rmtree(files.folder / "demo" / "engineering")
    (files.folder / "demo" / "engineering").symlink_to(elsewhere)
    with pytest.raises(InvalidInput, match="Links"):
        files.export()
    assert list(elsewhere.iterdir()) == []
