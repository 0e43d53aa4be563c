"""``manage.py reviews_expire``: end the requests that nobody decided in time."""

from typing import Any

from django.core.management.base import BaseCommand
from typing_extensions import override

from controlplane.reviews.services import SWEPT, reviews_expire


class Command(BaseCommand):
    help = "End reviews whose time is over. Reading the queue does so too; run this where nobody reads it."

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        total = count = reviews_expire()
        while count == SWEPT:
            count = reviews_expire()
            total += count
        self.stdout.write(f"{total} expired")
