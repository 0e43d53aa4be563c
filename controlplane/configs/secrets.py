"""Where a document holds a literal secret: wherever redaction would take something out of it, in whatever form."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from controlplane.configs.pointers import Tokens, encode, get, same
from controlplane.configs.secret_forms import secrets_by_form
from controlplane.core.redaction import redact_json
from controlplane.core.redaction.findings import MARKER_PATTERN


def literal_secrets(document: Mapping[str, Any], paths: Iterable[Tokens]) -> dict[str, str]:
    """Return pointer → rule of each literal secret at or below ``paths``, in their order.

    No path is the beginning of another. Of a key that is itself a secret, the pointer is its parent's.
    """
    wanted = list(paths)
    relevant = _relevant(document, _branches(wanted))
    redacted = redact_json(relevant)
    found = {encode(place): rule for path in wanted for place, rule in _differences(relevant, redacted, path)}
    for path in wanted:
        for place, rule in secrets_by_form(get(document, path), path):
            found.setdefault(encode(place), rule)
    return found


def _branches(paths: Iterable[Tokens]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for path in paths:
        branch = root
        for token in path:
            branch = branch.setdefault(token, {})
    return root


def _relevant(value: Any, branches: Mapping[str, Any]) -> Any:
    """Return the values at the ends of ``branches`` with the plain members beside them and beside their way.

    Those tell what a value is (``{"name": "DB_PASSWORD", "value": …}``); scanning the rest costs more than writing.
    """
    if not branches or not isinstance(value, Mapping):
        return value
    return {
        key: _relevant(item, branches[key]) if key in branches else item
        for key, item in value.items()
        if key in branches or not isinstance(item, Mapping | list)
    }


def _differences(value: Any, redacted: Any, path: Tokens) -> Iterator[tuple[Tokens, str]]:
    for depth, token in enumerate(path):
        if not isinstance(redacted, Mapping) or token not in redacted:
            yield path[:depth], _rule(redacted)
            return
        value, redacted = value[token], redacted[token]
    yield from _below(value, redacted, path)


def _below(value: Any, redacted: Any, path: Tokens) -> Iterator[tuple[Tokens, str]]:
    if same(value, redacted):
        return
    if isinstance(value, Mapping) and isinstance(redacted, Mapping) and value.keys() == redacted.keys():
        for key, item in value.items():
            yield from _below(item, redacted[key], (*path, key))
    elif isinstance(value, list) and isinstance(redacted, list) and len(value) == len(redacted):
        for index, item in enumerate(value):
            yield from _below(item, redacted[index], (*path, str(index)))
    else:
        yield path, _rule(redacted)


def _rule(redacted: Any) -> str:
    """Return the name in the first marker of a redacted value, key or member."""
    texts: list[Any] = [redacted]
    while texts:
        item = texts.pop(0)
        if isinstance(item, str) and (marker := MARKER_PATTERN.search(item)):
            return marker.group()[len("[redacted:") : -1]
        texts += [*item, *item.values()] if isinstance(item, Mapping) else item if isinstance(item, list) else []
    return "secret"
