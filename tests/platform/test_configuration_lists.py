"""``.env.example`` and ``docs/configuration.md`` list exactly the variables that the settings read."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
READ = re.compile(r"\benv\.[a-z_]+\(\s*\"([A-Z_]+)\"")
LISTED = re.compile(r"^#?([A-Z_]+)=", re.MULTILINE)
ROW = re.compile(r"^\| `([A-Z_]+)` \|([^|]*)\|(.*)\|$", re.MULTILINE)


def variables_read() -> set[str]:
    sources = "".join(file.read_text() for file in (ROOT / "controlplane" / "settings").glob("*.py"))
    return set(READ.findall(sources))


def example() -> str:
    return (ROOT / ".env.example").read_text()


def rows() -> list[tuple[str, str, str]]:
    """Return name, default and meaning of each row of the table."""
    return ROW.findall((ROOT / "docs" / "configuration.md").read_text())


def test_env_example__every_variable_read__is_listed_once_and_no_other() -> None:
    listed = LISTED.findall(example())
    assert sorted(listed) == sorted(variables_read())


def test_configuration_page__every_variable_read__has_one_row_and_no_other() -> None:
    assert sorted(name for name, _, _ in rows()) == sorted(variables_read())


def test_configuration_page__every_row__has_a_default_and_a_meaning() -> None:
    for name, default, meaning in rows():
        assert default.strip(), name
        assert len(meaning.strip()) > 20, name


def test_env_example__every_line__is_a_comment_so_that_a_copy_changes_nothing() -> None:
    assert [line for line in example().splitlines() if line and not line.startswith("#")] == []
