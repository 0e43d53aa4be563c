"""Signatures after Standard Webhooks, version 1 (https://www.standardwebhooks.com, "Signature scheme").

``webhook-signature`` is ``v1,`` and the base64 of HMAC-SHA256 over ``{webhook-id}.{webhook-timestamp}.{body}``; while a
secret changes there is one for each, separated by a space.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable
from typing import Final

_PREFIX: Final = "whsec_"


def signed_headers(*, id_: str, at: int, body: bytes, secrets: Iterable[str]) -> dict[str, str]:
    """Return the headers that prove where a delivery comes from.

    Args:
        id_: the same for every attempt of a delivery.
        at: the attempt's time, in seconds since 1970.
        body: the bytes that are sent.
        secrets: ``whsec_`` and base64, or any other text, which is then the key itself.
    """
    content = b".".join([id_.encode(), str(at).encode(), body])
    signatures = [f"v1,{_mac(key_of(secret), content)}" for secret in secrets]
    return {"webhook-id": id_, "webhook-timestamp": str(at), "webhook-signature": " ".join(signatures)}


def key_of(secret: str) -> bytes:
    """Return the key that a secret stands for."""
    if secret.startswith(_PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
        except binascii.Error:
            pass  # no base64: it is taken as it stands, and the receiver that shares it does the same
    return secret.encode()


def _mac(key: bytes, content: bytes) -> str:
    return base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
