"""Serving our own static files, in development and behind no proxy at all."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from typing_extensions import override
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.storage import CompressedManifestStaticFilesStorage


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]  # whitenoise is untyped
    """Whitenoise that answers each file whole.

    Whitenoise streams from an open file, which under ASGI Django can only read in a thread of its own, with a warning
    for each. Our files are small; the largest, the API viewer, has 1.5 MB.
    """

    @override
    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
        """Return the answer to GET or HEAD of a file, a range and 304 included."""
        found = static_file.get_response(request.method, request.META)
        content = b""
        if found.file is not None:
            with found.file:
                content = found.file.read()
        response = HttpResponse(content, status=int(found.status))
        del response["Content-Type"]
        for name, value in found.headers:
            response[name] = value
        return response


class ModuleStaticFilesStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # whitenoise is untyped
    """Whitenoise's storage that rewrites the imports of ES modules too: no page mixes modules of two releases."""

    support_js_module_import_aggregation = True
