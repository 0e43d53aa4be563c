"""Messages of Amazon SNS: that Amazon signed them, and the confirmation of a subscription.

Source: https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html: the certificate comes from a
host of Amazon SNS over HTTPS, the signature is made with it over some members (SHA-1 in version 1, SHA-256 in version
2), and a topic that is not expected is refused.
"""

import asyncio
import base64
import binascii
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import structlog
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from controlplane.core import clock
from controlplane.core.errors import AppError, NotAuthenticated, PermissionDenied, Unavailable
from controlplane.core.outbound import Answer, OutboundClient, OutboundError

log = structlog.get_logger(__name__)

TIMEOUT_S: Final = 5.0
_MAX_CERTIFICATE: Final = 64 * 1024
_KEPT: Final = 32
_TOPIC: Final = re.compile(
    r"arn:(?P<partition>aws[a-z-]*):sns:(?P<region>[a-z0-9-]{3,40}):\d{12}:[A-Za-z0-9_.-]{1,256}"
)
_CERTIFICATE_PATH: Final = re.compile(r"/SimpleNotificationService-[A-Za-z0-9]{1,64}\.pem")
#: Where the host of a region is in the partitions of AWS. Source: "AWS General Reference, Amazon SNS endpoints".
_DOMAINS: Final = {"aws": "amazonaws.com", "aws-us-gov": "amazonaws.com", "aws-cn": "amazonaws.com.cn"}
_HASHES: Final[dict[str, type[hashes.SHA1] | type[hashes.SHA256]]] = {"1": hashes.SHA1, "2": hashes.SHA256}
#: What is signed, in this order; members that are not there are left out.
_NOTIFICATION: Final = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
_CONFIRMATION: Final = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")

Fetch = Callable[[str], Answer]


class CertificateStore:
    """Certificates of Amazon SNS by their address, the last used ones; a certificate's address is never used again."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, x509.Certificate] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, url: str, fetch: Fetch) -> x509.Certificate:
        """Return the certificate at a checked address.

        Raises:
            Unavailable: it cannot be fetched just now; SNS tries again.
            NotAuthenticated: what is there is no certificate.
        """
        with self._lock:
            if url in self._kept:
                self._kept.move_to_end(url)
                return self._kept[url]
        answer = fetch(url)
        if answer.status != 200:
            raise Unavailable("The certificate that SNS signs with cannot be fetched just now.", code="no_certificate")
        try:
            certificate = x509.load_pem_x509_certificate(answer.body[:_MAX_CERTIFICATE])
        except ValueError:
            raise _refused("no_certificate") from None
        with self._lock:
            self._kept[url] = certificate
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return certificate


certificates = CertificateStore()


def fetched(url: str) -> Answer:
    """Fetch an address through the outbound client.

    Raises:
        Unavailable: it cannot be fetched just now.
    """
    loop = asyncio.new_event_loop()  # not asyncio.run(), which would wait for a name lookup that hangs
    try:
        return loop.run_until_complete(_get(url))
    except OutboundError as error:
        log.warning("alert.sns_unreachable", code=error.code, host=error.host)
        raise Unavailable("Amazon SNS cannot be reached just now.", code="sns_unreachable") from None
    finally:
        loop.close()


async def _get(url: str) -> Answer:
    async with OutboundClient(timeout_s=TIMEOUT_S, max_bytes=_MAX_CERTIFICATE) as client:
        return await client.get(url)


def envelope_verify(envelope: Mapping[str, Any], *, topics: Sequence[str] | None, fetch: Fetch | None = None) -> None:
    """Accept an envelope that Amazon signed for an expected topic.

    Args:
        envelope: the message's members.
        topics: the ARNs that are expected; ``None`` where another credential vouches for the sender.
        fetch: fetches an address, by default through the outbound client.

    Raises:
        NotAuthenticated: ``bad_signature``: it is not signed by Amazon SNS, or for another topic.
        Unavailable: the certificate cannot be fetched just now.
    """
    host = _host(envelope)
    if topics is not None and envelope.get("TopicArn") not in topics:
        raise _refused("unexpected_topic")
    chosen = _HASHES.get(str(envelope.get("SignatureVersion")))
    if chosen is None:
        raise _refused("signature_version")
    try:
        signature = base64.b64decode(str(envelope.get("Signature") or ""), validate=True)
    except (binascii.Error, ValueError):
        raise _refused("signature_form") from None
    certificate = certificates.get(_certificate_url(envelope.get("SigningCertURL"), host), fetch or fetched)
    key = certificate.public_key()
    if not certificate.not_valid_before_utc <= clock.now() <= certificate.not_valid_after_utc:
        raise _refused("certificate_expired")
    if not isinstance(key, rsa.RSAPublicKey):
        raise _refused("certificate_kind")
    try:
        key.verify(signature, string_to_sign(envelope), padding.PKCS1v15(), chosen())
    except InvalidSignature:
        raise _refused("signature") from None


def string_to_sign(envelope: Mapping[str, Any]) -> bytes:
    """Return what Amazon signs of an envelope: names and values, each on a line."""
    names = _NOTIFICATION if envelope.get("Type") == "Notification" else _CONFIRMATION
    lines = [f"{name}\n{envelope[name]}\n" for name in names if isinstance(envelope.get(name), str)]
    return "".join(lines).encode("utf-8", "surrogatepass")


def subscription_confirm(envelope: Mapping[str, Any], *, fetch: Fetch | None = None) -> None:
    """Confirm a subscription, of a verified envelope, at the very host of Amazon SNS in the topic's region.

    Raises:
        PermissionDenied: ``subscribe_url``: the address is none of that host, or not for this topic.
        Unavailable: SNS cannot be reached, or does not confirm, just now; it asks again.
    """
    url = str(envelope.get("SubscribeURL") or "")
    parts = _split(url)
    asked = parse_qs(parts.query) if parts else {}
    topic = envelope.get("TopicArn")
    if parts is None or parts.netloc != _host(envelope) or parts.path not in ("/", ""):
        raise PermissionDenied("The address of the subscription is not one of Amazon SNS.", code="subscribe_url")
    if asked.get("Action") != ["ConfirmSubscription"] or asked.get("TopicArn") != [topic]:
        raise PermissionDenied("The address confirms no subscription to this topic.", code="subscribe_url")
    answer = (fetch or fetched)(url)
    if answer.status != 200:
        raise Unavailable("Amazon SNS did not confirm the subscription.", code="not_confirmed")


def _host(envelope: Mapping[str, Any]) -> str:
    """Return the one host of Amazon SNS that a topic's messages may name."""
    match = _TOPIC.fullmatch(str(envelope.get("TopicArn") or ""))
    domain = _DOMAINS.get(match["partition"]) if match else None
    if match is None or domain is None:
        raise _refused("topic_form")
    return f"sns.{match['region']}.{domain}"


def _certificate_url(value: Any, host: str) -> str:
    parts = _split(value if isinstance(value, str) else "")
    if parts is None or parts.netloc != host or parts.query or not _CERTIFICATE_PATH.fullmatch(parts.path):
        raise _refused("certificate_url")
    return f"https://{host}{parts.path}"


def _split(url: str) -> Any:
    """Return the parts of an https address without user, port and fragment, ``None`` for any other."""
    if len(url) > 4_000 or not url.isascii() or not url.isprintable() or "\\" in url:
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return parts if parts.scheme == "https" and not parts.fragment else None


def _refused(why: str) -> AppError:
    """Return the one answer to everything that is not signed as it should be; the log says what it was."""
    log.warning("alert.sns_refused", reason=why)
    return NotAuthenticated("The message is not signed by Amazon SNS for a topic of this source.", code="bad_signature")
