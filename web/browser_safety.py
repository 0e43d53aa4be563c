"""What every answer tells a browser beside Django's own headers: features no page uses, who may embed or cache it."""

from typing import Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from typing_extensions import override

from controlplane.core.middleware import AnswerMiddleware

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


class BrowserSafetyMiddleware(AnswerMiddleware):
    """Sets the headers where an answer has none of that name yet."""

    @override
    def answered(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if request.path_info.startswith(_PRIVATE):
            response.headers.setdefault("Cache-Control", _NO_STORE)
        return response
