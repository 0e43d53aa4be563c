#!/usr/bin/env python
"""Entry point of every command."""

import os
import sys

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    try:
        settings.INSTALLED_APPS  # noqa: B018 (loads the settings: a wrong variable is one line, no traceback)
    except ImproperlyConfigured as error:
        sys.exit(f"Configuration error: {error}")
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
