"""Applying a template: a patch like any other, so previewed, checked, approved and audited like any other."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from controlplane.configs.catalogue.guard import is_reference
from controlplane.configs.catalogue.templates import TEMPLATES, Template, TemplateField, filled, template_pointer
from controlplane.configs.services import WriteResult, config_patch
from controlplane.core.actor import Actor
from controlplane.core.errors import FieldError, InvalidInput, invalid
from controlplane.core.redaction import redact_text
from controlplane.orgs.models import Node

MAX_VALUE: Final = 20_000
_INTEGERS: Final = range(-(2**63), 2**63)


def template_apply(
    *,
    actor: Actor,
    node: Node,
    template: str,
    values: Mapping[str, Any] | None = None,
    if_match: str | None = None,
    dry_run: bool = False,
) -> WriteResult:
    """Patch the node's document with a template of the catalogue, its values filled in.

    Args:
        actor: who writes; needs ``config.write`` on the node.
        node: whose document.
        template: its name in the catalogue.
        values: by the names of the template's fields; what is left out has its default.
        if_match, dry_run: as in :func:`config_patch`, as are the errors.

    Raises:
        InvalidInput: also ``unknown_template`` at ``/template``; ``unknown_value``, ``required``, ``type``, ``blank``,
            ``too_long`` or ``reference_required`` at ``/values/<name>``.
    """
    found = TEMPLATES.get(template)
    if found is None:
        close = get_close_matches(template, TEMPLATES, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        known = ", ".join(TEMPLATES)
        raise invalid("/template", "unknown_template", f"The catalogue has no such template; it has: {known}.{hint}")
    patch = filled(found.patch, _checked(found, values or {}))
    reason = f"Template {found.name}"
    return config_patch(actor=actor, node=node, patch=patch, if_match=if_match, reason=reason, dry_run=dry_run)


def _checked(template: Template, given: Mapping[str, Any]) -> dict[str, Any]:
    fields = {one.name: one for one in template.fields}
    errors = [
        FieldError(template_pointer(redact_text(name)[:80]), "unknown_value", "The template takes no such value.")
        for name in given
        if name not in fields
    ]
    values: dict[str, Any] = {}
    for name, one in fields.items():
        value = given.get(name)
        values[name] = one.default if value is None else value
        fault = _fault(one, values[name])
        if fault is not None:
            errors.append(FieldError(template_pointer(name), *fault))
    if errors:
        raise InvalidInput(errors[0].detail, code=errors[0].code, errors=errors[:20])
    return values


def _fault(one: TemplateField, value: Any) -> tuple[str, str] | None:
    """Return code and words of what is wrong with a value, without quoting it."""
    if value is None:
        return ("required", "The template needs this value.") if one.required else None
    if one.type == "integer":
        whole = isinstance(value, int) and not isinstance(value, bool) and value in _INTEGERS
        return None if whole else ("type", "This must be an integer.")
    return _text_fault(one, value) if isinstance(value, str) else ("type", "This must be a string.")


def _text_fault(one: TemplateField, value: str) -> tuple[str, str] | None:
    if not value.strip():
        return "blank", "This must not be blank."
    if len(value) > MAX_VALUE:
        return "too_long", f"This has {len(value)} characters; at most {MAX_VALUE} are accepted."
    if one.secret and not is_reference(value):
        return "reference_required", "This is a credential: a reference such as ${NAME}, never the value itself."
    return None
