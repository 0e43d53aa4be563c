"""The ASGI application: Django, and the hot routes that must not hold a thread each."""

import os
from typing import Any

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
django_application = get_asgi_application()

from controlplane.configs import hot  # noqa: E402
from controlplane.investigations import stream  # noqa: E402 (models need Django set up first)
from controlplane.investigations.hub import Hub  # noqa: E402
from controlplane.investigations.lifespan import Lifespan  # noqa: E402


class HttpRouter:
    """Sends the hot routes to their plain ASGI applications, everything else to Django."""

    def __init__(self, streams: stream.ThreadStream, configuration: hot.OwnEffective) -> None:
        self._streams = streams
        self._configuration = configuration

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if stream.matches(scope["path"]):
            await self._streams(scope, receive, send)
        elif hot.matches(scope):
            await self._configuration(scope, receive, send)
        else:
            await django_application(scope, receive, send)


async def refuse_websocket(_scope: Any, receive: Any, send: Any) -> None:
    """Close every WebSocket before it opens: there is none yet."""
    await receive()
    await send({"type": "websocket.close", "code": 4404})


def make_application() -> ProtocolTypeRouter:
    """Return an application with a hub of its own."""
    hub = Hub()
    configuration = hot.OwnEffective(django_application)
    return ProtocolTypeRouter(
        {
            "http": HttpRouter(stream.ThreadStream(hub), configuration),
            "websocket": refuse_websocket,
            "lifespan": Lifespan(hub, also=[configuration]),
        }
    )


application = make_application()
