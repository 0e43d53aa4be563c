"""Processes that work on runs."""

from django.db import models
from typing_extensions import override


class WorkerProcess(models.Model):
    """A worker, as it last showed itself. One that was killed cannot say so: silent for too long, it is lost.

    Nothing is decided by these rows: the leases on the threads decide who works on what.
    """

    name = models.CharField(primary_key=True, max_length=100, help_text="As in the leases of the threads.")
    host = models.CharField(max_length=200)
    pid = models.PositiveIntegerField()
    version = models.CharField(max_length=40)
    concurrency = models.PositiveIntegerField()
    embedded = models.BooleanField(help_text="Part of a web process.")
    draining = models.BooleanField(default=False)
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField(help_text="By the database's clock.")
    stopped_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "worker processes"
        ordering = ["-started_at", "name"]

    @override
    def __str__(self) -> str:
        return self.name
