"""What ``manage.py check`` says of the limits."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from controlplane.access.limits.rules import faults


@register()
def check_rate_limits(**_kwargs: Any) -> list[CheckMessage]:
    """Return an error for every entry of ``RATE_LIMITS`` that means nothing."""
    return [Error(fault, id="opensre.E010") for fault in faults(settings.RATE_LIMITS)]
