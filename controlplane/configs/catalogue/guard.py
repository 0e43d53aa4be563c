"""No literal in a field that the catalogue marks secret, whatever the literal looks like."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from controlplane.configs.catalogue.integrations import INTEGRATIONS, integration_definition
from controlplane.configs.merge import merge_all
from controlplane.configs.pointers import MISSING, Operation, Tokens, decode, encode, get
from controlplane.configs.selectors import chain_documents
from controlplane.core.errors import FieldError, InvalidInput
from controlplane.core.redaction import redact_text
from controlplane.orgs.models import Node

LISTED: Final = 20
# A default would be the literal again, so a secret's reference has none, or an empty one.
_REFERENCE: Final = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*(?::-)?\}")
_SCHEMES: Final = frozenset({"", "Bearer ", "Basic ", "Token ", "ApiKey "})
#: What an entry whose kind nobody has said yet may not hold as a literal: the secrets of every kind.
_ANY_SECRET: Final = {one.path: one.name for definition in INTEGRATIONS.values() for one in definition.secret_fields}


def check_catalogue_secrets(node: Node, document: Mapping[str, Any], operations: Sequence[Operation]) -> None:
    """Refuse literals that ``operations`` brought into secret fields of the integrations of ``document``.

    The kind may be set by a level above. One query where it is not in the document itself, else none.

    Raises:
        InvalidInput: ``literal_secret``, with the pointer of each and the field of the catalogue that is broken.
    """
    changed = [decode(one["pointer"]) for one in operations if "after" in one]
    names = {path[1] for path in changed if len(path) > 2 and path[0] == "integrations"}
    entries = {
        name: entry for name in sorted(names) if isinstance(entry := get(document, ("integrations", name)), dict)
    }
    if not entries:
        return
    kinds = _kinds(node, document, entries)
    errors: list[FieldError] = []
    for name, entry in entries.items():
        base = ("integrations", name)
        touched = [path[2:] for path in changed if path[:2] == base]
        for path, rule in _secrets(kinds[name]).items():
            if _concerned(path, touched) and not is_reference(get(entry, path)):
                detail = f"The catalogue marks this field secret (rule {rule}). Store a reference such as ${{NAME}}."
                errors.append(FieldError(redact_text(encode((*base, *path))), "literal_secret", detail))
    if errors:
        detail = "A document holds references to secrets, never secrets."
        raise InvalidInput(detail, code="literal_secret", errors=errors[:LISTED])


def _kinds(node: Node, document: Mapping[str, Any], entries: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the kind of each entry as it is in effect, ``None`` where nobody says."""
    if all("kind" in entry for entry in entries.values()):
        effective: Mapping[str, Any] = document
    else:
        above = [{"integrations": one.get("integrations")} for _, one in chain_documents(node.pk)[:-1]]
        effective = merge_all([one for one in above if one["integrations"] is not None] + [dict(document)])
    kinds = {name: get(effective, ("integrations", name, "kind")) for name in entries}
    return {name: kind if isinstance(kind, str) else None for name, kind in kinds.items()}


def _secrets(kind: str | None) -> Mapping[Tokens, str]:
    """Return path → rule of the secret fields of a kind."""
    if kind is None:
        return {path: f"catalogue {name}" for path, name in _ANY_SECRET.items()}
    definition = integration_definition(kind)
    fields = definition.secret_fields if definition else ()
    return {one.path: f"catalogue {kind}.{one.name}" for one in fields}


def _concerned(path: Tokens, touched: Sequence[Tokens]) -> bool:
    """Whether a change touches the field, or the kind, which decides what is a secret."""
    return any(one == ("kind",) or one[: len(path)] == path or path[: len(one)] == one for one in touched)


def is_reference(value: Any) -> bool:
    """Return whether a value may stand in a secret field: a reference, an explicit ``null``, or nothing."""
    if value is MISSING or value is None:
        return True
    return isinstance(value, str) and _REFERENCE.search(value) is not None and _REFERENCE.sub("", value) in _SCHEMES
