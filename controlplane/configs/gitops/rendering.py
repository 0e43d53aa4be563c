"""A plan for people to read at a terminal."""

import json
from difflib import unified_diff
from typing import Any, Final

from controlplane.configs.gitops.applying import Applied
from controlplane.configs.gitops.plans import NodeChange, Plan, shown

MOST_CHARS: Final = 200
MOST_LINES: Final = 60
SIGNS: Final = {"create": "+", "update": "~", "delete": "-"}
_MISSING: Final = object()


def rendered(applied: Applied) -> str:
    """Return a plan: a line for each leaf that comes (``+``), changes (``~``) or goes (``-``), and what it sums to."""
    plan = applied.plan
    lines: list[str] = []
    for change in plan.changes:
        lines += [
            *_change(change),
            *(f"      ! {_warning(one)}" for path, one in applied.warnings if path == change.path),
        ]
        lines.append("")
    lines.append(summary(plan))
    if plan.kept:
        names = ", ".join(plan.kept[:20]) + (", …" if len(plan.kept) > 20 else "")
        lines.append(f"{len(plan.kept)} without a file, kept as they are (--prune deletes them): {names}")
    return "\n".join(lines)


def summary(plan: Plan) -> str:
    """Return one line: how much would change."""
    if not plan.changes:
        return f"{plan.organization}: no changes. The configuration is as the files say."
    leaves = [shown_sign(operation) for change in plan.changes for operation in change.operations]
    values = ", ".join(
        f"{leaves.count(sign)} {word}" for sign, word in (("+", "set"), ("~", "changed"), ("-", "removed"))
    )
    nodes = f"{plan.count('create')} to create, {plan.count('update')} to update, {plan.count('delete')} to delete"
    return f"{plan.organization}: {nodes}; values: {values}."


def shown_sign(operation: Any) -> str:
    """Return ``+``, ``~`` or ``-``."""
    if "before" not in operation:
        return "+"
    return "~" if "after" in operation else "-"


def _change(change: NodeChange) -> list[str]:
    version = f", version {change.version}" if change.version else ""
    lines = [f"  {SIGNS[change.action]} {change.kind} {change.slug} ({change.path}{version})"]
    if change.action != "delete":
        for name, (before, after) in change.meta.items():
            lines.append(_leaf(f"({name})", before if change.action == "update" else _MISSING, after))
    for operation in change.operations:
        one = shown(operation)
        lines += _operation(one["pointer"], one.get("before", _MISSING), one.get("after", _MISSING))
    return lines


def _operation(pointer: str, before: Any, after: Any) -> list[str]:
    texts = [value for value in (before, after) if isinstance(value, str)]
    if len(texts) < 2 or not all("\n" in text for text in texts):
        return [_leaf(_printable(pointer), before, after)]
    changed = list(unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1))[2:]
    shown_lines = [f"          {_printable(line)[:MOST_CHARS]}" for line in changed[:MOST_LINES]]
    more = [f"          … {len(changed) - MOST_LINES} further lines"] if len(changed) > MOST_LINES else []
    return [f"      ~ {_printable(pointer)}:", *shown_lines, *more]


def _leaf(name: str, before: Any, after: Any) -> str:
    if before is _MISSING:
        return f"      + {name}: {_value(after)}"
    if after is _MISSING:
        return f"      - {name}: {_value(before)}"
    return f"      ~ {name}: {_value(before)} → {_value(after)}"


def _value(value: Any) -> str:
    text = _printable(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]}… ({len(text):,} characters)"


def _printable(text: str) -> str:
    """Return a text that cannot steer a terminal."""
    return "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in text)


def _warning(warning: Any) -> str:
    return f"{_printable(warning.pointer)}: {warning.detail} ({warning.code})"
