"""The ASGI application: Django, and the hot routes that must not hold a thread each."""

import os
from typing import Any

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
django_application = get_asgi_application()

from controlplane.investigations import stream  # noqa: E402 (models need Django set up first)
from controlplane.investigations.hub import Hub  # noqa: E402
from controlplane.investigations.lifespan import Lifespan  # noqa: E402


class HttpRouter:
    """Sends event streams to their plain ASGI application, everything else to Django."""

    def __init__(self, streams: stream.ThreadStream) -> None:
        self._streams = streams

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if stream.matches(scope["path"]):
            await self._streams(scope, receive, send)
        else:
            await django_application(scope, receive, send)


async def refuse_websocket(_scope: Any, receive: Any, send: Any) -> None:
    """Close every WebSocket before it opens: there is none yet."""
    await receive()
    await send({"type": "websocket.close", "code": 4404})


def make_application() -> ProtocolTypeRouter:
    """Return an application with a hub of its own."""
    hub = Hub()
    return ProtocolTypeRouter(
        {
            "http": HttpRouter(stream.ThreadStream(hub)),
            "websocket": refuse_websocket,
            "lifespan": Lifespan(hub),
        }
    )


application = make_application()
