"""The ASGI application: Django, and the hot routes that must not hold a thread each."""

import os
from typing import Any

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
django_application = get_asgi_application()

from controlplane.configs import hot  # noqa: E402
from controlplane.core.edge import SameOrigin, behind_proxies  # noqa: E402
from controlplane.investigations import stream  # noqa: E402 (models need Django set up first)
from controlplane.investigations.agui import application as agui  # noqa: E402
from controlplane.investigations.hub import Hub  # noqa: E402
from controlplane.investigations.lifespan import Lifespan  # noqa: E402


class HttpRouter:
    """Sends the hot routes to their plain ASGI applications, everything else to Django."""

    def __init__(self, streams: stream.ThreadStream, front_ends: agui.Agui, configuration: hot.OwnEffective) -> None:
        self._streams = streams
        self._agui = front_ends
        self._configuration = configuration

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if stream.matches(scope["path"]):
            await self._streams(scope, receive, send)
        elif agui.matches(scope["path"]):
            await self._agui(scope, receive, send)
        elif hot.matches(scope):
            await self._configuration(scope, receive, send)
        else:
            await django_application(scope, receive, send)


async def refuse_websocket(_scope: Any, receive: Any, send: Any) -> None:
    """Close every WebSocket before it opens: there is none yet."""
    await receive()
    await send({"type": "websocket.close", "code": 4404})


def guarded(websockets: Any) -> Any:
    """Return the application of all WebSockets behind the check of ``Origin``: every route, also one added later.

    Browsers open a WebSocket to any host with the cookies they have for it, and no rule of same origin or CSRF token
    stops them (RFC 6455, section 10.2): a page of another site must not speak as whoever is signed in here.
    """
    return SameOrigin(websockets)


def make_application() -> Any:
    """Return an application with a hub of its own, which takes a client's address from trusted proxies alone."""
    hub = Hub()
    configuration = hot.OwnEffective(django_application)
    streams = stream.ThreadStream(hub)
    front_ends = agui.Agui(streams)
    application = ProtocolTypeRouter(
        {
            "http": HttpRouter(streams, front_ends, configuration),
            "websocket": guarded(refuse_websocket),
            "lifespan": Lifespan(hub, also=[configuration, front_ends]),
        }
    )
    return behind_proxies(application)


application = make_application()
