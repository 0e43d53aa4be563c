"""The peer of the configuration benchmark: the same read, as one would write it with FastAPI and psycopg.

One query for token, chain and versions; the merged document kept as bytes by its chain; the token's HMAC verified; an
entity tag, and 304 for one that is still right.
"""

import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import orjson
from fastapi import FastAPI, Header, Response
from psycopg_pool import AsyncConnectionPool

from controlplane.access import tokens

CHAIN = """
    SELECT t.digest, t.pepper_version, t.scopes, t.expires_at, t.revoked_at, n.id, n.slug, n.kind, c.version, c.revision
    FROM access_accesstoken t
    JOIN orgs_nodeancestor a ON a.descendant_id = t.node_id
    JOIN orgs_node n ON n.id = a.ancestor_id
    LEFT JOIN configs_configdocument c ON c.node_id = n.id
    WHERE t.public_id = %s AND t.kind = %s
    ORDER BY a.depth DESC
"""
DOCUMENTS = "SELECT node_id, document FROM configs_configdocument WHERE node_id = ANY(%s)"

kept: dict[Any, bytes] = {}
pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
    os.environ.get("TEST_DATABASE_URL", "").replace("postgres://", "postgresql://", 1),
    kwargs={"autocommit": True},
    min_size=1,
    max_size=4,
    open=False,
)


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    await pool.open(wait=True)
    yield
    await pool.close()


def merged(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """Return documents merged in order: objects by key, everything else replaced."""
    result: dict[str, Any] = {}
    for document in documents:
        for name, value in document.items():
            both = isinstance(value, dict) and isinstance(result.get(name), dict)
            result[name] = merged([result[name], value]) if both else value
    return result


application = FastAPI(lifespan=lifespan)


@application.get("/api/v1/config/me/effective")
async def effective(
    authorization: Annotated[str, Header()] = "", if_none_match: Annotated[str | None, Header()] = None
) -> Response:
    text = tokens.parse(authorization.removeprefix("Bearer "))
    if text is None:
        return Response(status_code=401)
    async with pool.connection() as connection:
        rows = await (await connection.execute(CHAIN, [text.public_id, text.kind], prepare=True)).fetchall()
        if not rows or not tokens.verify(text, digest=rows[0][0], pepper_version=rows[0][1]):
            return Response(status_code=401)
        _, _, scopes, expires_at, revoked_at = rows[0][:5]
        now = datetime.now(UTC)
        if revoked_at is not None or (expires_at is not None and expires_at <= now) or "config:read" not in scopes:
            return Response(status_code=403)
        chain = tuple(row[5:] for row in rows)
        etag = '"' + hashlib.sha256(repr(chain).encode()).hexdigest()[:32] + '"'
        if if_none_match == etag:
            return Response(status_code=304, headers={"etag": etag})
        if chain not in kept:
            found = await (await connection.execute(DOCUMENTS, [[row[5] for row in rows]])).fetchall()
            documents = dict(found)
            kept[chain] = orjson.dumps(merged([documents.get(row[5], {}) for row in rows]), option=orjson.OPT_SORT_KEYS)
    slugs = [row[6] for row in rows]
    body = b'{"node_id":%b,"effective_config":%b,"computed_at":"%b","hierarchy":%b}' % (
        orjson.dumps(slugs[-1]),
        kept[chain],
        now.isoformat(timespec="milliseconds").encode(),
        orjson.dumps(slugs),
    )
    return Response(body, media_type="application/json", headers={"etag": etag, "cache-control": "private, no-cache"})
