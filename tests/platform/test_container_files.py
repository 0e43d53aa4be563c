"""``Dockerfile`` and ``compose.yaml``, as far as they can be judged without building an image."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands

ROOT = Path(__file__).resolve().parents[2]
SERVICES = ("migrate", "web", "worker", "postgres", "redis")


@pytest.fixture(scope="module")
def compose() -> Any:
    return yaml.safe_load((ROOT / "compose.yaml").read_text())


def test_compose__services__are_those_of_a_scaled_installation(compose: Any) -> None:
    assert tuple(compose["services"]) == SERVICES


@pytest.mark.parametrize("name", ["migrate", "web", "worker"])
def test_compose__our_services__run_one_image_without_rights(compose: Any, name: str) -> None:
    service = compose["services"][name]
    assert (service["image"], service["build"]) == ("opensre-controlplane", ".")
    assert service["environment"]["OPENSRE_MODE"] == "production"
    assert service["cap_drop"] == ["ALL"]
    assert service["read_only"] is True


def test_compose__commands__exist(compose: Any) -> None:
    told = [service.get("command", []) for service in compose["services"].values()]
    commands = [command for command in told if "manage.py" in command]
    assert len(commands) == 2
    assert {command[2] for command in commands} <= set(get_commands())


def test_compose__depends_on__names_services(compose: Any) -> None:
    for service in compose["services"].values():
        assert set(service.get("depends_on", {})) <= set(SERVICES)


def test_compose__web__is_published_on_this_machine_alone(compose: Any) -> None:
    assert [port.split(":")[0] for port in compose["services"]["web"]["ports"]] == ["127.0.0.1"]


def test_dockerfile__what_it_copies__exists_and_is_not_ignored() -> None:
    copied = re.findall(r"^COPY (?!--from)(\S+) ", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    admitted = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied
    for name in copied:
        assert (ROOT / name).exists(), name
    assert set(copied) == admitted


def test_dockerfile__process__is_not_root_and_names_no_secret() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert "\nUSER opensre\n" in text
    assert not re.search(r"^(ENV|ARG).*(SECRET_KEY|PEPPER|AUDIT_KEYS|PASSWORD)", text, re.MULTILINE)
