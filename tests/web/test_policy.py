"""What the strict content security policy asks of templates, and the exceptions of two paths."""

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.staticfiles import finders
from django.core.management import call_command
from django.test import Client
from pytest_django import Settings

from tests.factories import make_operator
from tests.web.support import Person
from web.templatetags.web import STATUSES, duration

TEMPLATES = sorted((Path(settings.BASE_DIR) / "templates").rglob("*.html"))
SCRIPTS = sorted((Path(settings.BASE_DIR) / "web/static/web/js").glob("*.js"))


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_template__nothing_inline_and_nothing_foreign(template: Path) -> None:
    text = template.read_text()
    assert not re.search(r"\sstyle=|<style|\son[a-z]+=|javascript:", text)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", text)
    assert "|safe" not in text


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_script__builds_no_markup_from_text(script: Path) -> None:
    text = script.read_text()
    assert not re.search(r"insertAdjacentHTML|outerHTML|document\.write|eval\(|new Function", text)
    # What is put in as markup are fragments of our own server, and each such line says so.
    for line in text.splitlines():
        if "innerHTML" in line:
            assert "our own template, escaped there" in line


def test_pages__policy__is_strict(responder: Person) -> None:
    policy = responder.client.get("/app/")["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy


def test_admin__policy__is_its_own(anonymous: Client) -> None:
    anonymous.force_login(make_operator())
    policy = anonymous.get("/admin/")["Content-Security-Policy"]
    assert "script-src 'self' 'unsafe-eval'" in policy
    assert "style-src 'self' 'unsafe-inline'" in policy
    assert "frame-ancestors 'none'" in policy


def test_api_docs__our_own_viewer__scripts_stay_strict(anonymous: Client) -> None:
    answer = anonymous.get("/api/docs")
    policy = answer["Content-Security-Policy"]
    assert answer.status_code == 200
    assert re.search(r"script-src 'self'(;|$)", policy)
    for path in re.findall(r'(?:src|href)="/static/([^"]+)"', answer.content.decode()):
        assert finders.find(path), path


def test_static__production_names__reach_into_module_imports(tmp_path: Path, settings: Settings) -> None:
    settings.STATIC_ROOT = tmp_path
    settings.STORAGES = {
        "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
        "staticfiles": {"BACKEND": "web.static_files.ModuleStaticFilesStorage"},
    }
    foreign = ["admin", "unfold", "drf_spectacular_sidecar", "rest_framework"]  # large, and not what is looked at here
    call_command("collectstatic", interactive=False, verbosity=0, ignore_patterns=foreign)
    (thread,) = tmp_path.glob("web/js/thread.????????????.js")
    imported = re.findall(r'from "\./([^"]+)"', thread.read_text())
    assert imported
    for name in imported:
        assert re.fullmatch(r"\w+\.[0-9a-f]{12}\.js", name)
        assert (tmp_path / "web/js" / name).is_file()


def test_statuses__same_words_in_template_and_script() -> None:
    render = (Path(settings.BASE_DIR) / "web/static/web/js/render.js").read_text()
    for status, look in STATUSES.items():
        assert f'{status}: {{ words: "{look.words}"' in render


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (0, "0 ms"), (999, "999 ms"), (1000, "1 s"), (4240, "4.2 s"), (59_949, "59.9 s"), (59_950, "1 min"),
        (72_000, "1 min 12 s"), (3_600_000, "1 h"), (7_500_000, "2 h 5 min"), (None, ""), (-1, ""),
    ],
)  # fmt: skip
def test_duration__words(milliseconds: float | None, words: str) -> None:
    assert duration(milliseconds) == words


def test_static__get_head_range_and_unchanged(anonymous: Client) -> None:
    path = "/static/web/js/reducer.js"
    whole = anonymous.get(path)
    assert whole["Content-Type"] == 'text/javascript; charset="utf-8"'
    assert int(whole["Content-Length"]) == len(whole.content)
    head = anonymous.head(path)
    assert (head.status_code, head.content, head["Content-Length"]) == (200, b"", whole["Content-Length"])
    part = anonymous.get(path, headers={"Range": "bytes=3-9"})
    assert (part.status_code, part.content) == (206, whole.content[3:10])
    same = anonymous.get(path, headers={"If-Modified-Since": whole["Last-Modified"]})
    assert (same.status_code, same.content) == (304, b"")
    assert anonymous.post(path).status_code == 405
    assert anonymous.get("/static/web/js/../../../manage.py").status_code == 404
