"""Settings of the installations under fault: those of the suite, with commits that outlive a crash of PostgreSQL."""

import os

from tests.settings import *  # noqa: F403 (what differs follows)
from tests.settings import DATABASES

DATABASES["default"].get("OPTIONS", {}).pop("options", None)  # synchronous commits, as in production
LOG_LEVEL = os.environ.get("LOG_LEVEL", "WARNING")
