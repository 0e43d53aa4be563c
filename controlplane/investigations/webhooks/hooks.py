"""The receivers that an effective configuration names."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from controlplane.configs.webhook_sections import WEBHOOK_EVENTS, WebhookSection

NOTICE: Final = "notice"
TEST_EVENT: Final = "webhook.test"


def hooks_in(document: Mapping[str, Any]) -> dict[str, WebhookSection]:
    """Return the receivers of a configuration by name; one that is off or cannot be read is none."""
    section = document.get("webhooks")
    found: dict[str, WebhookSection] = {}
    for name, entry in section.items() if isinstance(section, Mapping) else ():
        try:
            hook = WebhookSection.model_validate(entry)
        except ValidationError:  # stored by an earlier release
            continue
        if hook.enabled is not False and hook.url and hook.secret:
            found[str(name)] = hook
    return found


def wants(hook: WebhookSection, event: str, *, private: bool) -> bool:
    """Return whether a receiver is told of ``event``, which may be one of a private investigation."""
    if private and hook.private_threads != NOTICE:
        return False
    return event in (WEBHOOK_EVENTS if hook.events is None else hook.events)
