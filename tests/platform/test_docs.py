"""What the documentation names exists: files it links to, commands and make targets it tells one to run."""

import re
from pathlib import Path

import pytest
from django.core.management import get_commands

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\((?!https?://)([^)#]+)(?:#([a-z-]+))?\)")
MANAGE = re.compile(r"manage\.py ([a-z_]+)")
MAKE = re.compile(r"^\s*make ([a-z]+)\b(?!=)", re.MULTILINE)
CODE = re.compile(r"```sh\n(.*?)```|`(make [^`]+ ?)`", re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def ids(page: Path) -> str:
    return page.name


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_page__its_links__lead_to_files_and_headings_that_exist(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text()):
        file = page.parent / target
        if file.suffix == ".png":
            continue  # pictures are made from the running application
        assert file.exists(), target
        if anchor:
            headings = {heading.lower().replace(" ", "-") for heading in HEADING.findall(file.read_text())}
            assert anchor in headings, anchor


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_page__its_commands__exist(page: Path) -> None:
    assert set(MANAGE.findall(page.read_text())) <= set(get_commands())


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_page__its_make_targets__exist(page: Path) -> None:
    code = "\n".join("".join(found) for found in CODE.findall(page.read_text()))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(MAKE.findall(code)) <= targets


def test_changelog__newest_section__is_unreleased() -> None:
    sections = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert sections[0] == "Unreleased"


def test_licence__is_the_whole_apache_licence() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "9. Accepting Warranty or Additional Liability" in text
