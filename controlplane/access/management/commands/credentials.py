"""``manage.py credentials grant | revoke | list``: what the operator gives organizations, by name. Never a value."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from controlplane.access.models import CredentialGrant
from controlplane.access.services import credential_entrust, credential_revoke
from controlplane.core.actor import Actor, Channel, system_actor
from controlplane.core.credentials import credential_allowed, credential_value
from controlplane.core.errors import AppError
from controlplane.orgs.models import Node, Organization


class Command(BaseCommand):
    help = "Give an organization the use of a credential by its name, take it back, or list what it was given."

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        operations = parser.add_subparsers(dest="operation", required=True)
        grant = operations.add_parser("grant", help="give an organization a credential")
        revoke = operations.add_parser("revoke", help="take a credential back, with all that was granted from it")
        listing = operations.add_parser("list", help="list what organizations were given")
        for parts in (grant, revoke):
            parts.add_argument("organization", metavar="ORG", help="slug of the organization")
            parts.add_argument("name", metavar="NAME", help="as in ${NAME}")
        grant.add_argument(
            "--host",
            dest="hosts",
            metavar="HOST",
            action="append",
            default=[],
            help="a host it may be sent to: a name or address, *.domain or *; may be repeated",
        )
        grant.add_argument(
            "--root-only",
            action="store_true",
            help="nodes below the root hold it only where the organization's admins grant it to them",
        )
        listing.add_argument("organization", metavar="ORG", nargs="?", help="slug; all organizations when left out")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        try:
            match options["operation"]:
                case "grant":
                    self._grant(**{key: options[key] for key in ("organization", "name", "hosts", "root_only")})
                case "revoke":
                    self._revoke(options["organization"], options["name"])
                case _:
                    self._list(options["organization"])
        except AppError as error:
            raise CommandError(f"{error.detail} ({error.code})") from None

    def _grant(self, *, organization: str, name: str, hosts: list[str], root_only: bool) -> None:
        found = _organization(organization)
        grant = credential_entrust(
            actor=_actor(found), organization=found, name=name, hosts=hosts, inherited=not root_only
        )
        self.stdout.write(_line(grant))
        if not credential_allowed(name):
            self.stderr.write(f"{name} is not allowed by CREDENTIAL_ENV_ALLOW, so it resolves nowhere yet.")
        if not grant.hosts:
            self.stderr.write("Without --host it is sent nowhere; only runtimes that resolve credentials get it.")

    def _revoke(self, organization: str, name: str) -> None:
        found = _organization(organization)
        grants = list(_given(found).filter(name=name))
        if not grants:
            raise CommandError("The organization was not given a credential of this name.")
        ended = [one for grant in grants for one in credential_revoke(actor=_actor(found), grant=grant)]
        below = len(ended) - len(grants)
        self.stdout.write(f"{name} taken back from {found.slug}" + (f", with {below} grants below" if below else ""))

    def _list(self, organization: str | None) -> None:
        chosen = [_organization(organization)] if organization else list(Organization.objects.order_by("slug"))
        for one in chosen:
            for grant in _given(one):
                self.stdout.write(_line(grant))


def _organization(slug: str) -> Organization:
    found = Organization.objects.filter(slug=slug).first()
    if found is None:
        raise CommandError(f"There is no organization {slug[:63]!r}.")
    return found


def _given(organization: Organization) -> Any:
    grants = CredentialGrant.objects.filter(organization=organization, node__isnull=True, revoked_at__isnull=True)
    return grants.select_related("organization").order_by("name", "created_at", "id")


def _actor(organization: Organization) -> Actor:
    root = Node.objects.get(organization=organization, parent__isnull=True)
    return system_actor(name="credentials", organization_id=organization.pk, root_id=root.pk, channel=Channel.CLI)


def _line(grant: CredentialGrant) -> str:
    allowed = credential_allowed(grant.name)
    state = "not allowed" if not allowed else "unset" if credential_value(grant.name) is None else "set"
    hosts = ", ".join(grant.hosts) or "no host"
    reach = "" if grant.inherited else ", the root only"
    return f"{grant.organization.slug}  {grant.name}  {state}  {hosts}{reach}"
