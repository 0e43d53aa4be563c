"""Processes of their own, one database."""

import subprocess
import sys

import pytest

from controlplane.access.limits.windows import chunk_of
from controlplane.access.models import RateWindow
from tests.support.processes import ROOT, environment

#: Each process stands in the same window, whatever second it starts in.
ASK = """
import django
django.setup()
from controlplane.access.limits.limiter import Limiter
limiter = Limiter(clock=lambda: 1_000_000_060.0)
print(sum(limiter.spend("previews", "token:a").allowed for _ in range(200)))
"""


@pytest.mark.django_db(transaction=True)
def test_limiter__two_processes__limit_and_one_chunk_at_most() -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", ASK], cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    admitted = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert 120 <= sum(admitted) <= 120 + chunk_of(120)
    assert RateWindow.objects.count() == 1
