"""Counts behind the rate limits."""

from django.db import models
from typing_extensions import override


class RateWindow(models.Model):
    """How many permits of one window of one rule are given out to one caller or address, over all processes."""

    key = models.CharField(max_length=100, primary_key=True, help_text="Rule, hash of who is counted, window.")
    taken = models.BigIntegerField()
    expires_at = models.DateTimeField(db_index=True)

    @override
    def __str__(self) -> str:
        return f"{self.key}: {self.taken}"
