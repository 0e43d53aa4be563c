"""The rules of an identity provider's fields, each by its own error; values are never quoted."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings

from controlplane.core.errors import FieldError, InvalidInput, invalid
from controlplane.core.references import MalformedReference, Reference, is_name, parse
from controlplane.core.text import single_line

MAX_TENANTS: Final = 20
MAX_DOMAINS: Final = 50
#: The directory of personal Microsoft accounts: anybody has one.
PERSONAL_TENANT: Final = UUID("9188040d-6c67-4c5b-b112-36a304b66dad")
_DOMAIN: Final = re.compile(r"(?=.{1,253}\Z)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9-]{2,63}\Z")


class FieldChecks:
    """Runs every check, and raises once with all that failed."""

    def __init__(self) -> None:
        self._errors: list[FieldError] = []

    def one(self, check: Any) -> Any:
        """Return what ``check`` returns, ``None`` when it raises InvalidInput."""
        try:
            return check()
        except InvalidInput as error:
            self._errors += error.errors
            return None

    def done(self) -> None:
        """Raise what was collected, if anything."""
        if self._errors:
            first = self._errors[0]
            detail = first.detail if len(self._errors) == 1 else "Some fields are not valid."
            raise InvalidInput(detail, code=first.code, errors=self._errors)


def choice(value: str, choices: Iterable[str], pointer: str) -> str:
    """Return ``value`` if it is one of ``choices``.

    Raises:
        InvalidInput: ``unknown_`` and the field's name, with the choices.
    """
    listed = [str(choice) for choice in choices]
    if value not in listed:
        code = f"unknown_{pointer.removeprefix('/')}"
        raise invalid(pointer, code, f"This must be one of {', '.join(listed)}.")
    return value


def reference(text: str, pointer: str) -> str:
    """Return ``text``, a single ``${NAME}`` without a default, or ``""``.

    Raises:
        InvalidInput: ``literal_secret``: it holds anything else, which may be the secret itself.
    """
    if not text:
        return ""
    try:
        parts = parse(text)
    except MalformedReference:
        parts = ()
    if len(parts) == 1 and isinstance(parts[0], Reference) and parts[0].default is None and is_name(parts[0].name):
        return text
    detail = "This holds the name of a credential, ${NAME}, and nothing else: never the value itself."
    raise invalid(pointer, "literal_secret", detail)


def one_credential(secret: str, certificate: str) -> None:
    """Check that one of the two is given, and not both.

    Raises:
        InvalidInput: ``one_credential``.
    """
    if bool(secret) == bool(certificate):
        detail = "Give either client_secret or client_certificate."
        raise invalid("/client_secret", "one_credential", detail)


def left_out(**given: Any) -> None:
    """Check that fields of the other kind of provider are empty.

    Raises:
        InvalidInput: ``not_for_this_kind``, for each that is not.
    """
    errors = [
        FieldError(f"/{name}", "not_for_this_kind", "Providers of this kind have no such field.")
        for name, value in given.items()
        if value
    ]
    if errors:
        raise InvalidInput(errors[0].detail, code="not_for_this_kind", errors=errors)


def authority_url(text: str) -> str:
    """Return the issuer of an OpenID Connect provider as it was given.

    Raises:
        InvalidInput: ``authority``, or ``use_entra`` for Microsoft's, whose people are known by other claims.
    """
    detail = "This must be the issuer's URL: https, a host, no user, query or fragment, at most 500 characters."
    url = single_line(text, pointer="/authority", max_length=500)
    try:
        parts = urlsplit(url)
        good = (
            parts.scheme == "https" and bool(parts.hostname) and not (parts.query or parts.fragment or parts.username)
        )
    except ValueError:
        good = False
    if not good:
        raise invalid("/authority", "authority", detail)
    hosts = {urlsplit(cloud["login"]).hostname for cloud in settings.ENTRA_CLOUDS.values()}
    if parts.hostname in hosts | {"sts.windows.net", "login.windows.net", "login.microsoft.com"}:
        raise invalid("/authority", "use_entra", "For Microsoft's directories choose the kind entra and the tenant.")
    return url


def tenant_id(text: str, pointer: str) -> UUID:
    """Return the id of a directory of an organization.

    Raises:
        InvalidInput: ``not_a_guid``, or ``personal_accounts``.
    """
    try:
        tenant = UUID(text.strip())
    except ValueError:
        raise invalid(pointer, "not_a_guid", "This must be the directory (tenant) id, a GUID.") from None
    if tenant == PERSONAL_TENANT:
        raise invalid(pointer, "personal_accounts", "This is the directory of personal accounts, which anybody has.")
    return tenant


def tenants(texts: Iterable[str], own: UUID | None) -> list[str]:
    """Return directories besides ``own``, each once, sorted.

    Raises:
        InvalidInput: ``too_many``, or as :func:`tenant_id`.
    """
    listed = list(texts)
    if len(listed) > MAX_TENANTS:
        raise invalid("/allowed_tenants", "too_many", f"At most {MAX_TENANTS} are accepted.")
    found = {tenant_id(text, f"/allowed_tenants/{index}") for index, text in enumerate(listed)} - {own}
    return sorted(str(tenant) for tenant in found)


def domains(texts: Iterable[str]) -> list[str]:
    """Return e-mail domains in lower case, each once, sorted.

    Raises:
        InvalidInput: ``too_many``, or ``domain`` for each that is none.
    """
    listed: Sequence[str] = [text.strip().lower().removeprefix("@") for text in texts]
    if len(listed) > MAX_DOMAINS:
        raise invalid("/email_domains", "too_many", f"At most {MAX_DOMAINS} are accepted.")
    detail = "This is no domain, for example example.com."
    errors = [
        FieldError(f"/email_domains/{index}", "domain", detail)
        for index, text in enumerate(listed)
        if not _DOMAIN.match(text)
    ]
    if errors:
        raise InvalidInput(detail, code="domain", errors=errors)
    return sorted(set(listed))
