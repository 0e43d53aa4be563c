"""Settings of the test suite: SQLite in a file by default, PostgreSQL when ``TEST_DATABASE_URL`` is given.

A file rather than a database in memory: the threads and processes under test open connections of their own.
"""

import os
import tempfile
from pathlib import Path

os.environ.setdefault("OPENSRE_DATA_DIR", tempfile.mkdtemp(prefix="opensre-test-"))

from controlplane.settings import *  # noqa: F403 (the settings under test, then what differs)
from controlplane.settings import AGENT_RUNTIMES, DATA_DIR, INSTALLED_APPS, STORAGES
from controlplane.settings.background import background_apps, task_backends
from controlplane.settings.database import postgres_settings, sqlite_settings

_worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
_url = os.environ.get("TEST_DATABASE_URL", "")
if _url:
    DATABASES = {"default": postgres_settings(_url)}
    DATABASES["default"]["OPTIONS"]["pool"]["min_size"] = 0  # nothing is connected anew while a database is dropped
    # Commits need not outlive a power cut here: what is visible to whom, and when, is the same without the wait.
    DATABASES["default"]["OPTIONS"]["options"] = "-c synchronous_commit=off"
else:
    DATABASES = {"default": sqlite_settings(DATA_DIR / "opensre.sqlite3")}
    # A subprocess under test is pointed at the suite's own database by OPENSRE_TEST_SQLITE.
    DATABASES["default"]["TEST"] = {"NAME": str(Path(DATA_DIR) / f"test-{_worker}.sqlite3")}
    if "OPENSRE_TEST_SQLITE" in os.environ:
        DATABASES["default"]["NAME"] = os.environ["OPENSRE_TEST_SQLITE"]

# The database above is not the one the settings saw. Tasks stay in the process unless a test asks for the other way.
INSTALLED_APPS = [app for app in INSTALLED_APPS if app != "procrastinate.contrib.django"]
INSTALLED_APPS += background_apps(DATABASES["default"])
TASKS = task_backends(os.environ.get("TEST_TASKS", "in_process"), DATABASES["default"])

AGENT_RUNTIMES = {
    **AGENT_RUNTIMES,
    "scripted": "tests.support.runtimes.ScriptedRuntime",
    "scripted_resumes": "tests.support.runtimes.ResumingRuntime",
}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # speed; no test depends on the hash
EVENT_BUS = os.environ.get("EVENT_BUS") or "process"  # tests of a bus choose one; the others need none
EMBEDDED_WORKER = "EMBEDDED_WORKER_IN_TESTS" in os.environ
ALLOWED_HOSTS = ["*"]
WHITENOISE_AUTOREFRESH = True  # look files up when asked for: every test client would list them all at its start
DEFAULT_RUNTIME = os.environ.get("OPENSRE_TEST_RUNTIME", "builtin")
STORAGES["uploads"] = {"BACKEND": "django.core.files.storage.InMemoryStorage"}
LOG_LEVEL = "WARNING"
