"""``manage.py account``: what an operator does for a person who cannot sign in."""

import getpass
import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from controlplane.access.models import User
from controlplane.access.passwords import new_password
from controlplane.access.services import (
    account_unlock,
    authenticator_remove,
    password_set,
    sign_in_link_create,
)
from controlplane.core.actor import Actor, ActorKind, Channel
from controlplane.core.errors import AppError

LINK_PATH = "/login/link/"


class Command(BaseCommand):
    help = "Help a person into an account: by a one-time link, a new password, or the end of a lock or second factor."

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        for name, words in (
            ("link", "print a link that signs a member in once within 15 minutes, without password and code"),
            ("unlock", "forget the failed sign-ins of a username, from every address"),
            ("disable-totp", "remove the authenticator app and its recovery codes"),
        ):
            acts.add_parser(name, help=words).add_argument("username")
        password = acts.add_parser("password", help="set a password, sign every browser out and lift every lock")
        password.add_argument("username")
        password.add_argument("--generate", action="store_true", help="make one and print it")
        password.add_argument("--stdin", action="store_true", help="read it from standard input")

    @override
    def handle(self, *args: Any, act: str, username: str, **options: Any) -> None:
        user = User.objects.filter(username=username).first()
        if user is None:
            raise CommandError(f"There is no account {username!r}.")
        actor = Actor(
            ActorKind.SYSTEM, "system:installation", "installation", user.organization_id, channel=Channel.CLI
        )
        try:
            self.stdout.write(getattr(self, f"_{act.replace('-', '_')}")(actor, user, options))
        except AppError as error:
            raise CommandError(error.detail) from None

    def _link(self, _actor: Actor, user: User, _options: dict[str, Any]) -> str:
        return f"{settings.PUBLIC_URL}{LINK_PATH}{sign_in_link_create(user=user)}"

    def _unlock(self, actor: Actor, user: User, _options: dict[str, Any]) -> str:
        lifted = account_unlock(actor=actor, user=user)
        return "Nothing was locked." if lifted == 0 else f"{user.username} may try again."

    def _disable_totp(self, actor: Actor, user: User, _options: dict[str, Any]) -> str:
        authenticator_remove(actor=actor, user=user)
        return f"The password alone signs {user.username} in now."

    def _password(self, actor: Actor, user: User, options: dict[str, Any]) -> str:
        if options["generate"]:
            password = new_password()
        elif options["stdin"]:
            password = sys.stdin.readline().rstrip("\n")
        else:
            password = getpass.getpass(f"New password of {user.username}: ")
            if getpass.getpass("Again: ") != password:
                raise CommandError("The two differ; nothing was changed.")
        password_set(actor=actor, user=user, password=password)
        shown = f": {password}" if options["generate"] else "."
        return f"{user.username} has a new password, and is signed out everywhere{shown}"
