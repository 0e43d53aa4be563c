"""The files of an organization's configuration, as tests write and read them."""

from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from controlplane.audit.models import AuditEvent
from controlplane.configs.gitops.applying import Applied, config_apply, config_rehearse
from controlplane.configs.gitops.files import read_tree, write_tree
from controlplane.configs.gitops.plans import tree_of
from controlplane.configs.gitops.yaml_text import dump, load
from controlplane.configs.models import ConfigDocument, RouteClaim
from controlplane.core.actor import Actor
from controlplane.core.errors import AppError
from controlplane.orgs.models import Node
from tests.factories import Tree


class Files:
    """The files of an organization in a folder, to be edited."""

    def __init__(self, tree: Tree, folder: Path) -> None:
        self.tree, self.folder = tree, folder

    def export(self, *, prune: bool = False) -> tuple[int, list[str]]:
        return write_tree(self.folder, tree_of(self.tree.organization), prune=prune)

    def path(self, *slugs: str) -> Path:
        return self.folder.joinpath(*slugs, "node.yaml")

    def edit(self, *slugs: str, **members: Any) -> None:
        path = self.path(*slugs)
        data = (
            load(path.read_text("utf-8")) if path.exists() else {"slug": slugs[-1], "name": slugs[-1], "kind": "team"}
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dump(data | members), "utf-8")

    def apply(self, *, actor: Actor | None = None, **options: Any) -> Applied:
        tree = read_tree(self.folder)
        actor = actor or self.tree.system
        return config_apply(actor=actor, organization=self.tree.organization, tree=tree, **options)

    def plan(self, **options: Any) -> Applied:
        tree = read_tree(self.folder)
        return config_rehearse(actor=self.tree.system, organization=self.tree.organization, tree=tree, **options)

    def refused(self, **options: Any) -> AppError:
        """Return the error of an apply that has to change nothing."""
        before = state(self.tree)
        with pytest.raises(AppError) as caught, transaction.atomic():
            self.apply(**options)
        assert state(self.tree) == before
        return caught.value


def state(tree: Tree) -> Any:
    nodes = Node.objects.filter(organization=tree.organization).order_by("slug")
    return (
        list(nodes.values_list("slug", "name", "parent__slug", "archived_at")),
        list(ConfigDocument.objects.order_by("node_id").values_list("node_id", "version", "document")),
        list(RouteClaim.objects.order_by("kind", "key").values_list("kind", "key", "node_id")),
        AuditEvent.objects.count(),
    )
