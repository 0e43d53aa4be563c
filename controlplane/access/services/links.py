"""One-time sign-in links."""

from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from controlplane.access import tokens
from controlplane.access.models import SignInLink, User
from controlplane.access.services.people import audit_user
from controlplane.core import clock
from controlplane.core.actor import Actor, ActorKind, Channel
from controlplane.core.errors import NotAuthenticated, invalid

LINK_LIFETIME: Final = timedelta(minutes=15)


@transaction.atomic
def sign_in_link_create(*, user: User, lifetime: timedelta = LINK_LIFETIME, actor: Actor | None = None) -> str:
    """Return the secret of a link that signs ``user`` in once within ``lifetime``.

    Whoever calls this has made sure that the link may be given out: by default the installation's operator has it made,
    ``actor`` is who invites somebody new.

    Raises:
        InvalidInput: ``no_link``: an operator or a deactivated person signs in by password or not at all.
    """
    if user.organization_id is None or not user.is_active:
        raise invalid("", "no_link", "Only active members of an organization get sign-in links.")
    secret = tokens.random_text(tokens.SECRET_LENGTH)
    version = tokens.current_pepper()
    now = clock.now()
    SignInLink.objects.create(
        user=user, digest=_link_digest(secret, version), pepper_version=version, expires_at=now + lifetime
    )
    installation = Actor(
        ActorKind.SYSTEM, "system:installation", "installation", user.organization_id, channel=Channel.CLI
    )
    audit_user(actor or installation, "sign_in_link.create", user)
    return secret


@transaction.atomic
def sign_in_link_redeem(*, secret: str, address: str | None = None) -> User:
    """Use up a sign-in link and return whom it signs in. One conditional UPDATE: of two at once one succeeds.

    Raises:
        NotAuthenticated: ``link_invalid`` for an unknown, used or expired link alike.
    """
    link = _links(secret)
    now = clock.now()
    # Conditions on the link's own row only: one on a joined table would become a subquery, which PostgreSQL does not
    # evaluate again after waiting for the row, and the link would work twice.
    user = link.select_related("user").get().user if _unused(link, now).update(used_at=now) else None
    if user is None or not user.is_active:
        raise NotAuthenticated("This sign-in link is not valid, or has been used already.", code="link_invalid")
    person = Actor(
        ActorKind.USER,
        f"user:{user.pk}",
        user.display_name,
        user.organization_id,
        user.pk,
        channel=Channel.WEB,
        address=address,
    )
    audit_user(person, "sign_in_link.redeem", user)
    return user


def sign_in_link_person(*, secret: str) -> User | None:
    """Return whom a link would sign in, ``None`` for an unknown, used or expired one alike. The link stays unused."""
    link = _unused(_links(secret), clock.now()).filter(user__is_active=True).select_related("user").first()
    return None if link is None else link.user


def _links(secret: str) -> QuerySet[SignInLink]:
    return SignInLink.objects.filter(digest__in=[_link_digest(secret, version) for version in settings.TOKEN_PEPPERS])


def _unused(links: QuerySet[SignInLink], now: datetime) -> QuerySet[SignInLink]:
    return links.filter(used_at__isnull=True, expires_at__gt=now)


def _link_digest(secret: str, pepper_version: int) -> str:
    return tokens.peppered(f"link:{secret}", pepper_version)
