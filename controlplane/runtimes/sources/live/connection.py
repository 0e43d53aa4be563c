"""Testing a connection: is it the kind of server it is said to be, does it accept us, how fast, which version."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from controlplane.runtimes.sources.live.alertmanager import alertmanager_version
from controlplane.runtimes.sources.live.endpoint import Endpoint
from controlplane.runtimes.sources.live.http import JsonApi, SourceError, client_for
from controlplane.runtimes.sources.live.loki import loki_version
from controlplane.runtimes.sources.live.prometheus import prometheus_version

logger = logging.getLogger(__name__)

MOST_S: Final = 10.0
_VERSIONS: Final[dict[str, tuple[str, Callable[[JsonApi], Awaitable[str]]]]] = {
    "prometheus": ("Prometheus", prometheus_version),
    "alertmanager": ("Alertmanager", alertmanager_version),
    "loki": ("Loki", loki_version),
}


@dataclass(frozen=True, slots=True)
class ConnectionResult:
    """What a test found. ``code`` is ``ok``, or says why not; ``latency_ms`` is ``None`` when nothing was sent."""

    ok: bool
    code: str
    detail: str
    latency_ms: int | None = None
    version: str = ""


async def connection_test(endpoint: Endpoint, *, most_s: float = MOST_S) -> ConnectionResult:
    """Ask the server for its version and one answer of its API.

    Args:
        endpoint: of a known kind.
        most_s: seconds after which the test ends with ``timeout``.
    """
    title, version_of = _VERSIONS[endpoint.kind]
    began = time.monotonic()
    try:
        async with asyncio.timeout(most_s), client_for(endpoint, timeout_s=most_s) as client:
            version = await version_of(JsonApi(endpoint, client))
    except SourceError as error:
        return ConnectionResult(False, error.code, str(error), _since(began))
    except TimeoutError:
        return ConnectionResult(False, "timeout", "The server did not answer in time.", _since(began))
    except Exception as error:  # noqa: BLE001 (whatever a server answers is a result of the test)
        logger.warning("integration.test_failed kind=%s error=%s", endpoint.kind, type(error).__name__)
        return ConnectionResult(False, "not_json", f"This is no {title}: its answers have another form.", _since(began))
    shown = f" {version}" if version else ""
    return ConnectionResult(True, "ok", f"{title}{shown} answers.", _since(began), version)


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
