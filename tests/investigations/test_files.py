"""Files: what is taken, what they are, who reads them, and that none lies about."""

import gzip
import json
import zlib
from datetime import timedelta
from typing import Any
from uuid import uuid4

import orjson
import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import storages
from django.core.files.uploadedfile import SimpleUploadedFile

from controlplane.core import clock
from controlplane.core.actor import Role
from controlplane.core.errors import NotFound, PayloadTooLarge, UnsupportedMediaType
from controlplane.investigations import files
from controlplane.investigations.files import file_from_run, file_name, file_read, file_upload, files_sweep
from controlplane.investigations.models import StoredFile, Thread
from controlplane.investigations.sniffing import sniff, unpacked
from tests.factories import Tree, actor_for_user, api_client, make_team_token, make_user
from tests.support.runs import envelopes, start_run

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(32))
SECRET = "ghp_" + "a1B2" * 9
SNAPSHOT = {"format": "snapshot/1", "sources": {"metrics": {"x": 1}}}


def client_of(tree: Tree) -> Any:
    return api_client(token=make_team_token(tree.payments))


def upload(client: Any, content: bytes, name: str = "notes.txt") -> Any:
    return client.generic("POST", f"/api/v1/uploads?name={name}", content, content_type="application/octet-stream")


# ---- what they are ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0xx", "image/jpeg"),
        (b"GIF89a..", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"%PDF-1.7", "application/pdf"),
        (b' {"a": 1}\n', "application/json"),
        (b"<svg onload='alert(1)'>", "text/plain"),
        (b"<html><script>alert(1)</script>", "text/plain"),
        ("[umlaut äöü".encode(), "text/plain"),
    ],
)
def test_sniff__bytes__decide(content: bytes, kind: str) -> None:
    assert sniff(content) == kind


@pytest.mark.parametrize(
    "content",
    [
        b"PK\x03\x04zip",
        b"\x7fELF\x02\x01\x01\x00",
        b"MZ\x90\x00",
        b"text with \x00",
        b"\xff\xfe\x00",
        b"\x1f\x8b\x08",
        b"Rar!\x1a\x07",
    ],
)
def test_sniff__archives_and_programs__refused(content: bytes) -> None:
    with pytest.raises(UnsupportedMediaType) as caught:
        sniff(content)
    assert caught.value.code == "type_not_allowed"


def test_unpacked__bomb__stops_at_the_limit() -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    assert len(bomb) < 100_000
    with pytest.raises(PayloadTooLarge):
        unpacked(bomb, limit=1_000_000)


@pytest.mark.parametrize("content", [b"\x1f\x8b broken", gzip.compress(gzip.compress(b"x", mtime=0), mtime=0)])
def test_unpacked__broken_or_nested__refused(content: bytes) -> None:
    with pytest.raises(UnsupportedMediaType):
        unpacked(content, limit=1_000)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\temp\\a.txt", "a.txt"),
        ('a"b\r\nSet-Cookie: x.txt', "abSet-Cookie x.txt"),
        ("x" * 300, "x" * 200),
        ("..", "file"),
        (None, "file"),
        ("größe 📈.json", "größe 📈.json"),
    ],
)
def test_file_name__odd__made_safe(name: Any, kept: str) -> None:
    assert file_name(name) == kept


# ---- uploading -------------------------------------------------------------------------------------------------------


def test_upload__raw_and_form__the_same(tree: Tree) -> None:
    client = client_of(tree)
    raw = upload(client, PNG, "graph.png")
    form = client.post("/api/v1/uploads", {"file": SimpleUploadedFile("x/graph.png", PNG, "text/html")}, "multipart")

    for answer in (raw, form):
        assert answer.status_code == 201, answer.content
        body = answer.json()
        assert (body["name"], body["media_type"], body["size_bytes"]) == ("graph.png", "image/png", len(PNG))
    assert storages["uploads"].exists(StoredFile.objects.all()[0].key)


def test_upload__secret_in_a_text__is_not_stored(tree: Tree) -> None:
    for content in (f"token {SECRET}\n".encode(), json.dumps({"password": "hunter2hunter2", "a": SECRET}).encode()):
        file = StoredFile.objects.get(pk=upload(client_of(tree), content).json()["id"])
        kept = storages["uploads"].open(file.key).read()
        assert SECRET.encode() not in kept
        assert b"hunter2" not in kept


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"", 422, "file_required"),
        (b"PK\x03\x04", 415, "type_not_allowed"),
        (b"\x1f\x8b\x08\x00", 415, "file_damaged"),
        (b"x" * 2001, 413, "file_too_large"),
        (gzip.compress(b"x" * 5000, mtime=0), 413, "file_too_large"),
        (b"x" * 100_000, 413, "file_too_large"),
    ],
)
def test_upload__bad_file__clear_problem_and_nothing_kept(
    tree: Tree, settings: Any, content: bytes, status: int, code: str
) -> None:
    settings.UPLOAD_MAX_BYTES = 2000
    answer = upload(client_of(tree), content)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert not StoredFile.objects.exists()


def test_upload__form_without_file__refused(tree: Tree) -> None:
    client = client_of(tree)
    two = {"file": SimpleUploadedFile("a", b"a"), "other": SimpleUploadedFile("b", b"b")}
    for body in ({"text": "x"}, two):
        assert client.post("/api/v1/uploads", body, "multipart").json()["code"] == "file_required"
    broken = client.generic("POST", "/api/v1/uploads", b"--x", content_type="multipart/form-data; boundary=")
    assert broken.status_code == 400


def test_upload__viewer__may_not(tree: Tree) -> None:
    client = api_client(user=make_user(tree.payments, Role.VIEWER))
    assert upload(client, b"x").status_code == 403


def test_upload__too_many_waiting__conflict(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_WAITING", 1)
    client = client_of(tree)
    assert upload(client, b"x").status_code == 201
    assert upload(client, b"x").json()["code"] == "too_many_files"


def test_upload__storage_down__503_and_the_row_goes(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(*_: Any) -> str:
        raise OSError("disk full at /secret/path")

    monkeypatch.setattr(type(storages["uploads"]), "save", down)
    answer = upload(client_of(tree), b"x")
    assert (answer.status_code, answer.json()["code"]) == (503, "storage_unavailable")
    assert "secret" not in answer.content.decode()
    StoredFile.objects.update(created_at=clock.now() - timedelta(hours=2))
    assert files_sweep() == 1


# ---- using -----------------------------------------------------------------------------------------------------------


def test_evidence__upload__becomes_the_artifact(tree: Tree) -> None:
    client = client_of(tree)
    id_ = upload(client, gzip.compress(orjson.dumps(SNAPSHOT)), "evidence.json.gz").json()["id"]

    started = client.post("/api/v1/investigations", {"prompt": "why?", "evidence": id_})

    assert started.status_code == 202, started.content
    run = Thread.objects.get().runs.get()
    assert run.artifact is not None
    assert orjson.loads(zlib.decompress(bytes(run.artifact.content)))["sources"] == SNAPSHOT["sources"]
    again = client.post("/api/v1/investigations", {"prompt": "why?", "evidence": id_})
    assert (again.status_code, again.json()["errors"][0]["code"]) == (422, "unknown_upload")


@pytest.mark.parametrize(
    ("content", "code"),
    [(b"words", "evidence_not_json"), (b'{"format": "x"}', "invalid_evidence"), (b"{broken}", "evidence_not_json")],
)
def test_evidence__no_snapshot__refused_and_the_upload_stays(tree: Tree, content: bytes, code: str) -> None:
    client = client_of(tree)
    id_ = upload(client, content).json()["id"]
    answer = client.post("/api/v1/investigations", {"prompt": "why?", "evidence": id_})
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert StoredFile.objects.get().thread_id is None


def test_attachments__question_and_message__named_in_the_log(tree: Tree) -> None:
    client = client_of(tree)
    first, second = (upload(client, PNG, f"{name}.png").json()["id"] for name in ("one", "two"))
    started = client.post("/api/v1/investigations", {"prompt": "why?", "attachments": [first]}).json()
    client.post(f"/api/v1/threads/{started['thread_id']}/messages", {"text": "and this", "attachments": [second]})

    run_started, queued = envelopes(Thread.objects.get().pk)
    assert [file["name"] for file in run_started["data"]["attachments"]] == ["one.png"]
    assert [file["id"] for file in queued["data"]["attachments"]] == [second]
    listed = client.get(f"/api/v1/threads/{started['thread_id']}/files").json()["results"]
    assert [(file["name"], file["run_id"], file["outgoing"]) for file in listed] == [
        ("one.png", started["run_id"], False),
        ("two.png", started["run_id"], False),
    ]


@pytest.mark.parametrize(
    ("value", "code"),
    [("x", "not_a_list"), (5, "not_a_list"), ({}, "not_a_list"), (["x"], "unknown_upload"), ([1], "unknown_upload"),
     ([str(uuid4())], "unknown_upload"), ([str(uuid4())] * 11, "too_many_files")],
)  # fmt: skip
def test_attachments__bad_list__refused(tree: Tree, value: Any, code: str) -> None:
    answer = client_of(tree).post("/api/v1/investigations", {"prompt": "why?", "attachments": value})
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert not Thread.objects.exists()


def test_attachments__of_another_person__are_not_there(tree: Tree) -> None:
    id_ = upload(client_of(tree), b"x").json()["id"]
    other = api_client(user=make_user(tree.payments))
    answer = other.post("/api/v1/investigations", {"prompt": "why?", "attachments": [id_]})
    assert answer.json()["code"] == "unknown_upload"


def test_attachments__same_twice__refused(tree: Tree) -> None:
    client = client_of(tree)
    id_ = upload(client, b"x").json()["id"]
    answer = client.post("/api/v1/investigations", {"prompt": "why?", "attachments": [id_, id_]})
    assert answer.json()["errors"][0]["pointer"] == "/attachments/1"


# ---- reading ---------------------------------------------------------------------------------------------------------


def test_download__always_an_attachment_that_runs_nowhere(tree: Tree) -> None:
    started = start_run(tree.system, tree.payments)
    file = file_from_run(run=started.run, name='größe".html', content=b"<script>alert(1)</script>")
    answer = client_of(tree).get(f"/api/v1/threads/{started.thread.pk}/files/{file.pk}")

    assert answer.content == b"<script>alert(1)</script>"
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert answer["Content-Disposition"] == (
        "attachment; filename=\"gr__e.html\"; filename*=UTF-8''gr%C3%B6%C3%9Fe.html"
    )
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert "no-store" in answer["Cache-Control"]


def test_download__who_does_not_read_the_thread__404(tree: Tree, other_tree: Tree) -> None:
    owner = make_user(tree.payments)
    private = start_run(actor_for_user(owner), tree.payments, visibility="private")
    file = file_from_run(run=private.run, name="a.txt", content=b"x")
    path = f"/api/v1/threads/{private.thread.pk}/files/{file.pk}"

    assert api_client(user=owner).get(path).status_code == 200
    for other in (make_user(tree.payments, Role.ADMIN), make_user(other_tree.root, Role.OWNER)):
        assert api_client(user=other).get(path).status_code == 404
    team = start_run(tree.system, tree.payments, visibility="team")
    with pytest.raises(NotFound):
        file_read(tree.system, team.thread.pk, file.pk)


def test_download__bytes_changed_or_gone__said(tree: Tree) -> None:
    started = start_run(tree.system, tree.payments)
    file = file_from_run(run=started.run, name="a.txt", content=b"x")
    storages["uploads"].delete(file.key)
    client = client_of(tree)
    path = f"/api/v1/threads/{started.thread.pk}/files/{file.pk}"
    assert client.get(path).json()["code"] == "file_lost"
    storages["uploads"].save(file.key, ContentFile(b"y"))
    assert client.get(path).json()["code"] == "file_damaged"


# ---- removing --------------------------------------------------------------------------------------------------------


def test_sweep__unused_for_a_day__bytes_and_row_go(tree: Tree) -> None:
    client = client_of(tree)
    old, young = (StoredFile.objects.get(pk=upload(client, b"x").json()["id"]) for _ in range(2))
    StoredFile.objects.filter(pk=old.pk).update(created_at=clock.now() - timedelta(hours=25))

    assert files_sweep() == 1

    assert list(StoredFile.objects.values_list("pk", flat=True)) == [young.pk]
    assert [storages["uploads"].exists(file.key) for file in (old, young)] == [False, True]


def test_sweep__thread_gone__its_files_too(tree: Tree) -> None:
    started = start_run(tree.system, tree.payments)
    file = file_from_run(run=started.run, name="a.txt", content=b"x")
    StoredFile.objects.update(created_at=clock.now() - timedelta(hours=25))
    assert files_sweep() == 0
    Thread.objects.all().delete()
    assert files_sweep() == 1
    assert not storages["uploads"].exists(file.key)


def test_discard__own_unused_upload__once(tree: Tree) -> None:
    client = client_of(tree)
    id_ = upload(client, b"x").json()["id"]
    assert api_client(user=make_user(tree.payments)).delete(f"/api/v1/uploads/{id_}").status_code == 404
    assert client.delete(f"/api/v1/uploads/{id_}").status_code == 204
    assert client.delete(f"/api/v1/uploads/{id_}").status_code == 404
    assert files_sweep() == 1


def test_storage__files_on_disk__only_their_owner_reads_them(tree: Tree, tmp_path: Any, settings: Any) -> None:
    options = {"location": str(tmp_path), "file_permissions_mode": 0o600, "directory_permissions_mode": 0o700}
    backend = "django.core.files.storage.FileSystemStorage"
    settings.STORAGES = settings.STORAGES | {"uploads": {"BACKEND": backend, "OPTIONS": options}}
    file = file_upload(actor=actor_for_user(make_user(tree.payments)), name="../../a.txt", content=b"x")
    stored = tmp_path / file.key
    assert stored.read_bytes() == b"x"
    assert stored.stat().st_mode & 0o077 == 0
