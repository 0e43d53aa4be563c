"""The ASGI application: Django, and the hot routes that must not hold a thread each."""

import asyncio
import os
from typing import Any

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
django_application = get_asgi_application()

from controlplane.audit.security import Unwritten  # noqa: E402
from controlplane.configs import hot  # noqa: E402
from controlplane.core.db import DatabaseThreads  # noqa: E402
from controlplane.core.edge import SameOrigin, behind_proxies  # noqa: E402
from controlplane.investigations import sockets, stream  # noqa: E402 (models need Django set up first)
from controlplane.investigations.agui import application as agui  # noqa: E402
from controlplane.investigations.hub import Hub  # noqa: E402
from controlplane.investigations.lifespan import Lifespan  # noqa: E402
from controlplane.investigations.opensre import stream as opensre  # noqa: E402


class HttpRouter:
    """Sends the hot routes to their plain ASGI applications, everything else to Django."""

    def __init__(
        self,
        streams: stream.ThreadStream,
        investigate: opensre.Investigate,
        front_ends: agui.Agui,
        configuration: hot.OwnEffective,
    ) -> None:
        self._streams = streams
        self._investigate = investigate
        self._agui = front_ends
        self._configuration = configuration

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if stream.matches(scope["path"]):
            await self._streams(scope, receive, send)
        elif opensre.matches(scope["path"]):
            await self._investigate(scope, receive, send)
        elif agui.matches(scope["path"]):
            await self._agui(scope, receive, send)
        elif hot.matches(scope):
            await self._configuration(scope, receive, send)
        else:
            await django_application(scope, receive, send)


class Steering:
    """The database threads of what clients ask for over plain ASGI connections, until the server stops."""

    def __init__(self) -> None:
        self.database = DatabaseThreads(threads=2, name="steering-db")

    async def close(self) -> None:
        """Close the connections."""
        await asyncio.to_thread(self.database.close)


def guarded(websockets: Any) -> Any:
    """Return the application of all WebSockets behind the check of ``Origin``: every route, also one added later.

    Browsers open a WebSocket to any host with the cookies they have for it, and no rule of same origin or CSRF token
    stops them (RFC 6455, section 10.2): a page of another site must not speak as whoever is signed in here.
    """
    return SameOrigin(websockets)


def make_application() -> Any:
    """Return an application with a hub of its own, which takes a client's address from trusted proxies alone."""
    hub = Hub()
    steering = Steering()
    configuration = hot.OwnEffective(django_application)
    streams = stream.ThreadStream(hub)
    front_ends = agui.Agui(streams)
    application = ProtocolTypeRouter(
        {
            "http": HttpRouter(streams, opensre.Investigate(hub, steering.database), front_ends, configuration),
            "websocket": guarded(sockets.websockets(hub, steering.database)),
            "lifespan": Lifespan(hub, also=[configuration, front_ends, steering, Unwritten()]),
        }
    )
    return behind_proxies(application)


application = make_application()
