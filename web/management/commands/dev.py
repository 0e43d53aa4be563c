"""``manage.py dev``: everything on this machine in one process, from an empty directory to a finished investigation."""

import socket
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection, connections
from django.urls import reverse
from typing_extensions import override

from controlplane.access.bootstrap import first_owner, installation_is_empty
from controlplane.access.services import sign_in_link_create
from controlplane.core import tasks
from controlplane.core.errors import AppError
from web.dev import WILDCARDS, StartError, base_url, interrupt_on_sigterm, only_one, open_socket, serve
from web.sample import sample_start

APPLICATION = "controlplane.asgi:application"


class Command(BaseCommand):
    help = (
        "Serve the web page, the API and an embedded worker in one process. An empty database is filled with an "
        "organization, its accounts and tokens (shown once), and a sample investigation. Ctrl-C stops everything."
    )
    requires_system_checks = ()  # they run after the port is ours

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default=settings.DEV_HOST, help="default: HOST, else 127.0.0.1")
        parser.add_argument("--port", type=int, default=settings.DEV_PORT, help="default: PORT, else 8000")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        if settings.PRODUCTION:
            raise CommandError("This is for OPENSRE_MODE=local; in production serve controlplane.asgi:application.")
        interrupt_on_sigterm()
        listener: socket.socket | None = None
        try:
            # Before anything else: a second start must not touch the database of the first.
            listener = open_socket(options["host"], options["port"])
            self._run(listener, options["host"], options["port"])
        except (StartError, AppError) as error:
            raise CommandError(str(error)) from None
        except KeyboardInterrupt:
            pass
        finally:
            if listener is not None:
                listener.close()
        tasks.drain(2)
        self._say("Stopped.")

    def _run(self, listener: socket.socket, host: str, port: int) -> None:
        self._prepare()
        welcome = self._welcome(base_url(host, port), host)
        connections.close_all()  # this thread is about to run an event loop, which does not touch the database
        serve(APPLICATION, listener, on_ready=lambda: self._say(*welcome))

    def _prepare(self) -> None:
        self.check()
        with only_one(settings.DATA_DIR / "setup.lock"):
            try:
                call_command("migrate", interactive=False, verbosity=0)
            except DatabaseError as error:
                raise StartError(f"The database does not work ({str(error).strip().splitlines()[0]}).") from None
            self._say(f"Database: {connection.settings_dict['NAME']}")
            if installation_is_empty():
                call_command("bootstrap", stdout=self.stdout)
            if sample_start():
                self._say("The sample investigation has been started.")

    def _welcome(self, url: str, host: str) -> list[str]:
        lines = ["", f"OpenSRE is ready: {url}"]
        owner = first_owner()
        if owner is not None:
            link = reverse("web:login_link", args=[sign_in_link_create(user=owner)])
            lines.append(f"Sign in as {owner.username} (once, within 15 minutes): {url}{link}")
        if host in WILDCARDS:
            lines.append("Other machines reach it by the names in ALLOWED_HOSTS.")
        return [*lines, "Ctrl-C stops everything.", ""]

    def _say(self, *lines: str) -> None:
        self.stdout.write("\n".join(lines))
        self.stdout.flush()
