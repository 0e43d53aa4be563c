"""REST of files: taking them in, and reading those of a thread."""

from collections.abc import Mapping
from typing import IO, Any, Final
from urllib.parse import quote
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse
from django.http.multipartparser import MultiPartParserError
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.parsers import BaseParser, MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from typing_extensions import override

from controlplane.core import clock
from controlplane.core.api import actor_of, query_of
from controlplane.core.errors import MalformedRequest, invalid
from controlplane.investigations.api import PROBLEM
from controlplane.investigations.files import UNUSED_FOR, file_read, file_upload, files_of, too_large, upload_discard
from controlplane.investigations.models import StoredFile

#: What a multipart body has around its file.
_AROUND: Final = 64 * 1024
_PART: Final = "file"


class FileParser(BaseParser):
    """A body that is the file itself, whatever it says it is; of one that is too long no more is read than shows it."""

    media_type = "*/*"

    @override
    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        return stream.read(settings.UPLOAD_MAX_BYTES + 1)


class UploadOutput(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    media_type = serializers.CharField()
    size_bytes = serializers.IntegerField()
    sha256 = serializers.CharField()
    expires_at = serializers.DateTimeField()


class ThreadFileOutput(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    media_type = serializers.CharField()
    size_bytes = serializers.IntegerField()
    sha256 = serializers.CharField()
    run_id = serializers.UUIDField(allow_null=True)
    message_id = serializers.UUIDField(allow_null=True)
    outgoing = serializers.BooleanField()
    by = serializers.CharField()
    created_at = serializers.DateTimeField()
    url = serializers.CharField()


class ThreadFileListOutput(serializers.Serializer[Any]):
    results = ThreadFileOutput(many=True)


class UploadsView(APIView):
    parser_classes = [MultiPartParser, FileParser]
    rate_rule = "uploads"

    @override
    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Refuse what says that it is too long before a byte of it is parsed."""
        length = request.META.get("CONTENT_LENGTH") or "0"
        if length.isdigit() and int(length) > settings.UPLOAD_MAX_BYTES + _AROUND:
            raise too_large()
        super().initial(request, *args, **kwargs)

    @extend_schema(
        operation_id="file_upload",
        parameters=[OpenApiParameter("name", str, description="Of a body that is the file itself.")],
        request={
            "multipart/form-data": {"type": "object", "properties": {_PART: {"type": "string", "format": "binary"}}},
            "application/octet-stream": {"type": "string", "format": "binary"},
        },
        responses={201: UploadOutput, 403: PROBLEM, 413: PROBLEM, 415: PROBLEM, 422: PROBLEM},
    )
    def post(self, request: Request) -> Response:
        """Keep a file for a question, a message or as evidence: as the body, or as ``file`` of a form."""
        query = query_of(request, "name")
        name, content = _file(request)
        file = file_upload(actor=actor_of(request), name=query.get("name", name), content=content)
        return Response(upload_json(file), status=status.HTTP_201_CREATED)


class UploadView(APIView):
    @extend_schema(operation_id="file_discard", responses={204: None, 404: PROBLEM})
    def delete(self, request: Request, file_id: UUID) -> Response:
        """Remove an upload of yours that no investigation has taken up."""
        upload_discard(actor=actor_of(request), file_id=file_id)
        return Response(status=status.HTTP_204_NO_CONTENT)


class ThreadFilesView(APIView):
    @extend_schema(operation_id="thread_file_list", responses={200: ThreadFileListOutput, 404: PROBLEM})
    def get(self, request: Request, thread_id: UUID) -> Response:
        """List the files of a thread, oldest first."""
        query_of(request)
        found = files_of(actor_of(request), thread_id)
        return Response({"results": [file_json(file) for file in found]})


class ThreadFileView(APIView):
    @extend_schema(
        operation_id="thread_file_read",
        responses={(200, "application/octet-stream"): bytes, 404: PROBLEM},
    )
    def get(self, request: Request, thread_id: UUID, file_id: UUID) -> HttpResponse:
        """Read a file, always as a download: no browser shows or runs it in place."""
        query_of(request)
        content = file_read(actor_of(request), thread_id, file_id)
        kind = content.file.media_type
        answer = HttpResponse(
            content.data, content_type=f"{kind}; charset=utf-8" if kind in ("text/plain", "application/json") else kind
        )
        answer["Content-Disposition"] = disposition(content.file.name)
        answer["X-Content-Type-Options"] = "nosniff"
        answer["Content-Security-Policy"] = "sandbox; default-src 'none'"
        answer["Cross-Origin-Resource-Policy"] = "same-origin"
        answer["Cache-Control"] = "private, no-store"
        return answer


def disposition(name: str) -> str:
    """Return the header that makes a download of an answer (RFC 6266, with the name after RFC 8187)."""
    plain = "".join(sign if sign.isascii() and sign not in '"\\' else "_" for sign in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def _file(request: Request) -> tuple[str, bytes]:
    """Return the file of a request with its name.

    Raises:
        MalformedRequest: ``malformed_form``.
        InvalidInput: ``file_required``.
        PayloadTooLarge: ``file_too_large``.
    """
    try:
        data = request.data
    except MultiPartParserError:
        raise MalformedRequest("The form cannot be read.", code="malformed_form") from None
    if isinstance(data, bytes):
        return "", data
    sent = request.FILES.getlist(_PART)
    if len(sent) != 1 or len(request.FILES) != 1:
        raise invalid(f"/{_PART}", "file_required", f"Send one file, as {_PART} of the form or as the body.")
    if (sent[0].size or 0) > settings.UPLOAD_MAX_BYTES:
        raise too_large()
    return sent[0].name or "", sent[0].read()


def upload_json(file: StoredFile) -> dict[str, Any]:
    """Return an upload as its uploader sees it."""
    return {
        "id": file.pk,
        "name": file.name,
        "media_type": file.media_type,
        "size_bytes": file.size_bytes,
        "sha256": file.sha256,
        "expires_at": clock.rfc3339(file.created_at + UNUSED_FOR),
    }


def file_json(file: StoredFile) -> dict[str, Any]:
    """Return a thread's file as its readers see it."""
    return {
        "id": file.pk,
        "name": file.name,
        "media_type": file.media_type,
        "size_bytes": file.size_bytes,
        "sha256": file.sha256,
        "run_id": file.run_id,
        "message_id": file.message_id,
        "outgoing": file.outgoing,
        "by": file.by_label,
        "created_at": clock.rfc3339(file.created_at),
        "url": f"/api/v1/threads/{file.thread_id}/files/{file.pk}",
    }
