"""What every answer tells a browser beside Django's own headers: features no page uses, who may embed or cache it."""

from collections.abc import Callable
from typing import Any, Final

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

#: No page of ours asks for any of these, so nothing that slips into one can (https://www.w3.org/TR/permissions-policy/).
_UNUSED: Final = (
    "accelerometer", "autoplay", "camera", "display-capture", "encrypted-media", "geolocation", "gyroscope", "hid",
    "magnetometer", "microphone", "midi", "payment", "publickey-credentials-get", "screen-wake-lock", "serial", "usb",
    "xr-spatial-tracking",
)  # fmt: skip
HEADERS: Final = {
    "Permissions-Policy": ", ".join(f"{feature}=()" for feature in _UNUSED),
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Permitted-Cross-Domain-Policies": "none",
}
#: Answers below these paths are somebody's own; a view that may be cached says so itself.
_PRIVATE: Final = ("/app/", "/admin/", "/login/", "/logout/", "/api/")
_NO_STORE: Final = "no-store, private"


class BrowserSafetyMiddleware:
    """Sets the headers where an answer has none of that name yet."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        if self._is_async:
            return self._call_async(request)
        return _with_headers(request, self.get_response(request))

    async def _call_async(self, request: HttpRequest) -> HttpResponseBase:
        return _with_headers(request, await self.get_response(request))


def _with_headers(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    if request.path_info.startswith(_PRIVATE):
        response.headers.setdefault("Cache-Control", _NO_STORE)
    return response
