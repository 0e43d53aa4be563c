"""What can go wrong on the way out, in words for a person and a stable code for a machine."""

from typing import Final

#: Every code and what it means; the words never quote the URL's path, query or credentials.
CODES: Final[dict[str, str]] = {
    "bad_url": "The URL is not one that can be fetched.",
    "scheme_not_allowed": "Only http and https are fetched.",
    "host_unknown": "The host's name does not resolve.",
    "address_denied": "The host is a link-local, metadata or otherwise special address, which is never fetched.",
    "address_private": "The host is on a private network the operator has not opened (OUTBOUND_PRIVATE_ALLOW).",
    "redirect_refused": "The server redirects to another host, which is not followed.",
    "too_many_redirects": "The server redirects too often.",
    "timeout": "The server did not answer in time.",
    "too_large": "The answer is larger than is read.",
    "connection_failed": "The server cannot be reached.",
    "tls_failed": "The server's certificate is not valid for it.",
    "protocol_error": "The server's answer is not valid HTTP.",
}


class OutboundError(Exception):
    """A refused or failed request. ``code`` is one of :data:`CODES`; the text says which host, never which path."""

    def __init__(self, code: str, host: str = "") -> None:
        self.code = code
        self.host = host
        words = CODES[code]
        super().__init__(f"{words.rstrip('.')} (host {host})." if host else words)
