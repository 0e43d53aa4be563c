"""Policies: rules that a node sets for the configuration of its descendants, judged on effective values.

Before and after a write are compared at each place a policy means, so it does not matter how the write reached it: by
the path itself, by a parent, ``null``, another type, a list, or by removing an override.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import orjson
from django.db.models import QuerySet

from controlplane.configs.models import ConfigPolicy, PolicyKind
from controlplane.configs.patterns import ANY, changed_at, matches, places, seen
from controlplane.configs.pointers import MISSING, Document, Tokens, decode, encode, get, leaves, same, unset
from controlplane.core.errors import FieldError, InvalidInput, PermissionDenied
from controlplane.core.redaction import redact_json, redact_text

LISTED: Final = 20
#: A locked value larger than this, as JSON, is not repeated in a refusal.
SHOWN_BYTES: Final = 2_000
REFERENCE: Final = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_BOUNDS: Final = (PolicyKind.MINIMUM, PolicyKind.MAXIMUM, PolicyKind.ALLOWED_VALUES, PolicyKind.SECRET)


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy as it is judged. ``node`` is the slug of the level that set it."""

    node_id: UUID
    node: str
    pointer: str
    kind: str
    value: Any

    @property
    def pattern(self) -> Tokens:
        return decode(self.pointer)


def policies_above(node_id: UUID) -> list[Policy]:
    """Return the policies that bind a node: those of its ancestors, root first, never its own. One query."""
    rows = ConfigPolicy.objects.filter(node__below__descendant_id=node_id, node__below__depth__gt=0)
    return policies_judged(rows.order_by("-node__below__depth", "pointer", "kind"))


def policies_of(levels: Sequence[UUID]) -> list[Policy]:
    """Return the policies of the given levels, in their order. One query.

    Of a chain that was read before, whatever has become of the tree since.
    """
    found = policies_judged(ConfigPolicy.objects.filter(node_id__in=levels).order_by("pointer", "kind"))
    return sorted(found, key=lambda policy: levels.index(policy.node_id))


def bounds_from(node_id: UUID) -> list[Policy]:
    """Return the bounds of a node and its descendants: what a write there may break from above. One query."""
    rows = ConfigPolicy.objects.filter(node__above__ancestor_id=node_id, kind__in=_BOUNDS)
    return policies_judged(rows.order_by("node__above__depth", "node__slug", "pointer", "kind"))


def policies_judged(rows: QuerySet[ConfigPolicy]) -> list[Policy]:
    """Return stored policies in the form in which they are judged."""
    values = rows.values_list("node_id", "node__slug", "pointer", "kind", "value")
    return [Policy(*row) for row in values]


def check_policies(policies: Sequence[Policy], before: Document, after: Document) -> None:
    """Judge a change of the effective configuration of a node that ``policies`` bind.

    Raises:
        PermissionDenied: ``policy_locked``, naming path, level and locked value (unless it is secret).
        InvalidInput: ``policy_minimum``, ``policy_maximum``, ``policy_allowed_values`` or ``policy_secret``.
    """
    _check_locks(policies, before, after)
    errors = [
        FieldError(shown_pointer(path), f"policy_{policy.kind}", _bound_detail(policy, path))
        for policy, path in broken_bounds(policies, before, after)
    ]
    if errors:
        raise InvalidInput(errors[0].detail, code=errors[0].code, errors=errors[:LISTED])


def broken_bounds(policies: Iterable[Policy], before: Document, after: Document) -> Iterator[tuple[Policy, Tokens]]:
    """Yield each bound that a change breaks, with the place; what was as it is before the change is not judged."""
    for policy in policies:
        if policy.kind not in _BOUNDS:
            continue
        for path in places(policy.pattern, before, after):
            if changed_at(before, after, path) and not _within(policy, path, after):
                yield policy, path


def touched_approvals(policies: Iterable[Policy], before: Document, after: Document) -> list[tuple[Policy, Tokens]]:
    """Return the ``requires_approval`` policies whose places a change touches, each with the first of them."""
    found: list[tuple[Policy, Tokens]] = []
    for policy in policies:
        if policy.kind == PolicyKind.REQUIRES_APPROVAL:
            path = next(
                (path for path in places(policy.pattern, before, after) if changed_at(before, after, path)), None
            )
            if path is not None:
                found.append((policy, path))
    return found


def without_echoes(policies: Iterable[Policy], above: Document, before: Document, after: Document) -> Document:
    """Return the document ``after`` without the overrides at locked places that only repeat what is inherited.

    Editors send inherited values back. Storing one would keep it when the level that locks it changes it later, and so
    lift the lock; what was stored before is left alone.
    """
    locks: dict[str, list[Tokens]] = {}
    for policy in policies:
        if policy.kind == PolicyKind.LOCKED:
            locks.setdefault(policy.pattern[0], []).append(policy.pattern)
    if not locks:
        return after
    old = dict(leaves(before))
    echoes: list[Tokens] = []
    for pointer, value in leaves(after):
        if same(old.get(pointer, MISSING), value):
            continue
        path = decode(pointer)
        depth, inherited = seen(above, path)
        if depth == len(path) and same(inherited, value):
            candidates = (*locks.get(path[0], ()), *locks.get(ANY, ()))
            if any(matches(lock, path) for lock in candidates):
                echoes.append(path)
    return unset(after, echoes) if echoes else after


def required_missing(policies: Iterable[Policy], effective: Document) -> list[tuple[Policy, Tokens]]:
    """Return the required places that have no value in an effective document; ``null`` and ``""`` are none.

    What a ``*`` stands for has to exist; the segments after it name what each of those must have.
    """
    return [
        (policy, path)
        for policy in policies
        if policy.kind == PolicyKind.REQUIRED
        for path in places(policy.pattern, effective)
        if get(effective, path) in (MISSING, None, "")
    ]


def _check_locks(policies: Sequence[Policy], before: Document, after: Document) -> None:
    secrets = [policy.pattern for policy in policies if policy.kind == PolicyKind.SECRET]
    broken: list[dict[str, Any]] = []
    errors: list[FieldError] = []
    for policy in policies:
        if policy.kind != PolicyKind.LOCKED:
            continue
        for path in places(policy.pattern, before, after):
            if len(errors) < LISTED and changed_at(before, after, path):
                value = _shown_value(get(before, path), path, secrets)
                pointer = shown_pointer(path)
                errors.append(FieldError(pointer, "policy_locked", f"{policy.node} has locked this{_at(value)}."))
                broken.append(
                    {"pointer": pointer, "level": policy.node, **({} if value is MISSING else {"value": value})}
                )
    if errors:
        first = errors[0]
        detail = f"{first.pointer} is locked: {first.detail}"
        raise PermissionDenied(detail, code="policy_locked", errors=errors, extra={"locked": broken})


def _at(value: Any) -> str:
    return "" if value is MISSING else f" at {orjson.dumps(value).decode()}"


def _shown_value(value: Any, path: Tokens, secrets: Iterable[Tokens]) -> Any:
    """Return a locked value if it may be repeated to whoever hits the lock, else :data:`MISSING`."""
    inside = (path, *(path + tokens for tokens in _ways(value)))
    if value is MISSING or any(matches(secret, way) for secret in secrets for way in inside):
        return MISSING
    if len(orjson.dumps(value)) > SHOWN_BYTES or not same(redact_json({path[-1]: value}), {path[-1]: value}):
        return MISSING
    return value


def _ways(value: Any) -> Iterator[Tokens]:
    if isinstance(value, Mapping):
        for pointer, _ in leaves(value):
            yield decode(pointer)


def _within(policy: Policy, path: Tokens, after: Document) -> bool:
    depth, value = seen(after, path)
    if value is MISSING:  # nobody sets it: there is nothing to bound
        return True
    hidden = depth < len(path)  # something in the way hides what is inherited here, and what may be inherited later
    if policy.kind == PolicyKind.SECRET:
        return value is None or (not hidden and isinstance(value, str) and REFERENCE.fullmatch(value) is not None)
    if hidden:
        return False
    if policy.kind == PolicyKind.ALLOWED_VALUES:
        return any(same(value, allowed) for allowed in policy.value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return bool(value >= policy.value if policy.kind == PolicyKind.MINIMUM else value <= policy.value)


def _bound_detail(policy: Policy, path: Tokens) -> str:
    where = f"{shown_pointer(path)} ({policy.node} sets the rule)"
    if policy.kind == PolicyKind.SECRET:
        return f"{where} must be a reference such as ${{NAME}}, or null."
    limit = orjson.dumps(policy.value).decode()
    if policy.kind == PolicyKind.ALLOWED_VALUES:
        return f"{where} must be one of {limit[:500]}."
    return f"{where} must be a number, at {'least' if policy.kind == PolicyKind.MINIMUM else 'most'} {limit}."


def shown_pointer(path: Tokens) -> str:
    """Return the pointer of a place, fit for a message: a key may itself be a secret."""
    return redact_text(encode(path))
