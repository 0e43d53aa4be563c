"""Cross-references of effective configurations: who uses what, and what a write would break.

Users are enabled agents (their tools, skills, MCP servers, integrations and sub-agents), enabled tools and skills (the
integrations they require) and ``entrance_agent``. A use is broken when what is used is switched off, or gone. Judged is
only what a write switches: what was broken before stays the business of whoever broke it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import reduce
from operator import or_
from typing import Any, Final
from uuid import UUID

import orjson
from django.db.models import Exists, OuterRef, QuerySet

from controlplane.configs.merge import merge
from controlplane.configs.models import ConfigDocument
from controlplane.configs.patterns import changed_at, seen
from controlplane.configs.pointers import MISSING, Document, Tokens, encode, get, same
from controlplane.configs.reach import MOST_NAMES, documents_below, is_list, mentioning, not_object
from controlplane.configs.validation import ConfigWarning
from controlplane.core.errors import FieldError, InvalidInput
from controlplane.core.redaction import redact_text
from controlplane.orgs.models import Node, NodeAncestor

#: The sections that hold what is used, and those who use it.
SECTIONS: Final = ("agents", "entrance_agent", "integrations", "mcp_servers", "skills", "tools")
LISTED: Final = 20

#: Member of an agent → (section, what one is called). ``mcps`` and ``mcp_servers`` mean the same.
_USES: Final[dict[str, tuple[str, str]]] = {
    "tools": ("tools", "tool"),
    "skills": ("skills", "skill"),
    "mcps": ("mcp_servers", "MCP server"),
    "mcp_servers": ("mcp_servers", "MCP server"),
    "integrations": ("integrations", "integration"),
    "sub_agents": ("agents", "agent"),
}
_REQUIRES: Final = ("requires_integration", "requires_integrations", "required_integrations")
#: Sections that are complete: what they do not define does not exist. Tools and skills also come with the installation.
_COMPLETE: Final = ("agents", "integrations", "mcp_servers")
#: Section of users → the members of an item there that name what it uses.
_USING: Final[dict[str, tuple[str, ...]]] = {"agents": tuple(_USES), "tools": _REQUIRES, "skills": _REQUIRES}
_SWITCHES: Final = ("enabled", "disabled")  # ``{"enabled": ["a"], "disabled": []}`` instead of a map of names


@dataclass(frozen=True, slots=True)
class Use:
    """One item using another. ``firm``: the user is switched on in so many words."""

    user: str
    at: Tokens
    section: str
    noun: str
    name: str
    firm: bool

    @property
    def item(self) -> Tokens:
        return (self.section, self.name)


@dataclass(frozen=True, slots=True)
class Level:
    """A node of a chain, by slug, with its own document."""

    node: str
    document: Document


def check_dependencies(
    *, node: Node, levels: Sequence[tuple[str, Document]], before: Document, after: Document
) -> None:
    """Refuse a change of a node's effective configuration that breaks a use there or at a descendant.

    Of the descendants only those are looked at whose own documents name what is switched, or what uses it or is used by
    it: for the others it is as for the one above. No query unless something is switched, else at most five.

    Args:
        node: where the document changes.
        levels: ``(slug, document)`` of the chain, root first, with the node's new document last.
        before, after: the node's effective configurations.

    Raises:
        InvalidInput: ``dependency_broken``, with the pointer of what is switched, the level that sets it, who depends
            on it, and a name that may be meant.
    """
    if not any(changed_at(before, after, (section,)) for section in SECTIONS):
        return
    chain = [Level(*level) for level in levels]
    errors = [_error(use, before, after, chain, "") for use in _newly_broken(before, after)]
    if not errors:
        errors = _broken_below(node, before, after, chain)
    if errors:
        raise InvalidInput(errors[0].detail, code="dependency_broken", errors=errors[:LISTED])


def reference_warnings(before: Document, after: Document) -> list[ConfigWarning]:
    """Return uses that a change brings in and that name nothing this installation's configuration defines."""
    if not any(changed_at(before, after, (section,)) for section in SECTIONS):
        return []
    known = {use.at for use in uses_in(before) if _missing(use, before)}
    warnings: list[ConfigWarning] = []
    for use in uses_in(after):
        if _missing(use, after) and use.at not in known and not _is_broken(use, after):
            close = _suggestion(use, after)
            if close or use.section in _COMPLETE:
                detail = f"{use.user} uses the {use.noun} {_named(use.name)}, which is not configured.{close}"
                warnings.append(ConfigWarning(redact_text(encode(use.at)), "unknown_reference", detail))
    return warnings[:LISTED]


def uses_in(document: Mapping[str, Any]) -> Iterator[Use]:
    """Yield every use of an effective document that is switched on."""
    entrance = document.get("entrance_agent")
    if isinstance(entrance, str) and entrance:
        yield Use("entrance_agent", ("entrance_agent",), "agents", "agent", entrance, firm=True)
    for name, agent in _items(document, "agents"):
        for member, (section, noun) in _USES.items():
            for used, at in _switched_on(agent.get(member), ("agents", name, member)):
                if (section, used) != ("agents", name):
                    yield Use(f"agent {_named(name)}", at, section, noun, used, firm=agent.get("enabled") is True)
    for section, noun in (("tools", "tool"), ("skills", "skill")):
        for name, item in _items(document, section):
            for member in _REQUIRES:
                for used, at in _required(item.get(member), (section, name, member)):
                    firm = item.get("enabled") is True
                    yield Use(f"{noun} {_named(name)}", at, "integrations", "integration", used, firm=firm)


def is_on(item: Any) -> bool:
    """Return whether an item is switched on: ``true``, or an object that does not say ``"enabled": false``."""
    if isinstance(item, Mapping):
        return item.get("enabled") is not False
    return item is True


def _items(document: Mapping[str, Any], section: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the items of a section that are objects and switched on."""
    items = document.get(section)
    if isinstance(items, Mapping):
        for name, item in items.items():
            if isinstance(item, Mapping) and is_on(item):
                yield name, item


def _switched_on(uses: Any, at: Tokens) -> Iterator[tuple[str, Tokens]]:
    """Yield the names that a map of switches, or a list, switches on; ``*`` means whatever there is."""
    if isinstance(uses, Mapping):
        if uses and all(key in _SWITCHES and isinstance(value, list) for key, value in uses.items()):
            yield from _required(uses.get("enabled"), (*at, "enabled"))
            return
        for name, switch in uses.items():
            if name != "*" and is_on(switch):
                yield name, (*at, name)
    else:
        yield from _required(uses, at)


def _required(names: Any, at: Tokens) -> Iterator[tuple[str, Tokens]]:
    if isinstance(names, str):
        names = [names]
    for name in names if isinstance(names, list) else ():
        if isinstance(name, str) and name and name != "*":
            yield name, at


def _state(document: Mapping[str, Any], section: str, name: str) -> Any:
    """Return an item, ``False`` where a list of switches turns it off, or :data:`MISSING`."""
    items = document.get(section)
    if not isinstance(items, Mapping):
        return MISSING
    if section in ("tools", "skills") and any(isinstance(items.get(key), list) for key in _SWITCHES):
        enabled, disabled = items.get("enabled"), items.get("disabled")
        listed = not isinstance(enabled, list) or "*" in enabled or name in enabled
        return MISSING if listed and not (isinstance(disabled, list) and name in disabled) else False
    return items.get(name, MISSING)


def _missing(use: Use, document: Mapping[str, Any]) -> bool:
    return _state(document, use.section, use.name) in (MISSING, None)


def _is_broken(use: Use, document: Mapping[str, Any]) -> bool:
    state = _state(document, use.section, use.name)
    if state is MISSING or state is None:
        # Who says nothing about being enabled may be a part of what another level, or another system, defines.
        return use.firm and use.section in _COMPLETE
    return state is False or (isinstance(state, Mapping) and state.get("enabled") is False)


def _newly_broken(before: Document, after: Document) -> list[Use]:
    """Return the uses that a change breaks: those that were whole, or were not there."""
    old = {(use.at, use.name): use for use in uses_in(before)}
    broken: list[Use] = []
    for use in uses_in(after):
        was = old.get((use.at, use.name))
        if was is not None and _is_broken(was, before):
            continue
        if _is_broken(use, after) or (was is not None and _went(use, before, after)):
            broken.append(use)
    return broken


def _went(use: Use, before: Document, after: Document) -> bool:
    """Return whether a definition that was used is gone. A plain switch that goes leaves the default."""
    return _missing(use, after) and isinstance(_state(before, use.section, use.name), Mapping)


def _broken_below(node: Node, before: Document, after: Document, chain: list[Level]) -> list[FieldError]:
    own = _documents_that_may_break(node.pk, before, after)
    if not own:
        return []
    known: dict[UUID, tuple[Document, Document, list[Level]]] = {
        node.pk: (_only(before), _only(after), [Level(level.node, _only(level.document)) for level in chain])
    }
    errors: list[FieldError] = []
    for node_id, parent_id, slug in _down_to(node.pk, own):  # parents come before their children
        found = known.get(parent_id) if parent_id else None
        if found is None:
            continue
        document = own.get(node_id)
        if document:
            was, becomes = merge(found[0], document), merge(found[1], document)
            if same(was, becomes):
                continue
            found = was, becomes, [*found[2], Level(slug, document)]
            errors += [_error(use, was, becomes, found[2], slug) for use in _newly_broken(was, becomes)]
            if len(errors) >= LISTED:
                break
        known[node_id] = found
    return errors


def _documents_that_may_break(root: UUID, before: Document, after: Document) -> dict[UUID, Document]:
    """Return the documents below with which a use may break, and those of the nodes between. At most four queries.

    A use breaks where the item used changes, or the one that uses it. So a document matters that names such an item, or
    one that uses it or is used by it, be it in another document; or that hides a whole section.
    """
    changed = switched_items(before, after)
    if changed is None or len(changed) > MOST_NAMES:
        return _held(documents_below(root).filter(document__has_any_keys=list(SECTIONS)))
    if not changed:
        return {}
    related = changed | neighbours(changed, before, after)
    whole = reduce(or_, [not_object((section,)) for section in SECTIONS if section != "entrance_agent"])
    lists = reduce(or_, [is_list((section, key)) for section in ("tools", "skills") for key in _SWITCHES])
    below = documents_below(root).filter(document__has_any_keys=list(SECTIONS))
    own = _held(below.filter(mentioning(related) | whole | lists))
    others = neighbours(changed, *own.values()) - related
    if len(others) > MOST_NAMES:
        return _held(below)
    if others:
        own |= _held(below.filter(mentioning(others)))
    between = NodeAncestor.objects.filter(descendant_id__in=own, depth__gt=0).values("ancestor_id")
    return own | _held(below.filter(node_id__in=between)) if own else own


def _down_to(root: UUID, nodes: Collection[UUID]) -> Iterator[tuple[UUID, UUID | None, str]]:
    """Yield the nodes below ``root`` that are in ``nodes`` or above one of them, level by level. One query."""
    on_the_way = NodeAncestor.objects.filter(ancestor_id=OuterRef("descendant_id"), descendant_id__in=nodes)
    below = NodeAncestor.objects.filter(Exists(on_the_way), ancestor_id=root, depth__gt=0)
    rows = below.order_by("depth", "descendant__slug")
    yield from rows.values_list("descendant_id", "descendant__parent_id", "descendant__slug")


def switched_items(before: Document, after: Document) -> set[str] | None:
    """Return the names of the items whose switches, uses or presence differ; ``None`` where a section as a whole does.

    What an item holds besides, such as a prompt, breaks nothing.
    """
    names: set[str] = set()
    for section in SECTIONS:
        old, new = before.get(section, {}), after.get(section, {})
        if section == "entrance_agent":
            if not same(old, new):
                names |= {section, *(value for value in (old, new) if isinstance(value, str))}
            continue
        if not isinstance(old, Mapping) or not isinstance(new, Mapping):
            if not same(old, new):
                return None
            continue
        differ = {
            name for name in old.keys() | new.keys() if _judged(section, old, name) != _judged(section, new, name)
        }
        if differ.intersection(_SWITCHES):
            return None
        names |= differ
    return names


def neighbours(names: set[str], *documents: Mapping[str, Any]) -> set[str]:
    """Return what uses one of ``names`` in some documents, or is used by one, whether switched on or off."""
    found: set[str] = set()
    for document in documents:
        for section, members in _USING.items():
            items = document.get(section)
            for name, item in items.items() if isinstance(items, Mapping) else ():
                if isinstance(item, Mapping):
                    used = set().union(*(_texts(item.get(member)) for member in members))
                    if name in names or used & names:
                        found |= {name, *used}
        entrance = document.get("entrance_agent")
        if isinstance(entrance, str) and entrance in names:
            found.add("entrance_agent")
    return found


def _judged(section: str, items: Mapping[str, Any], name: str) -> str:
    """Return in one text what of an item decides over uses; of an object also whether it is empty, so adds nothing."""
    item = items.get(name, MISSING)
    if item is MISSING:
        return ""
    if isinstance(item, Mapping) and name not in _SWITCHES:
        told = {key: item[key] for key in ("enabled", *_USING.get(section, ())) if key in item}
        return f"{bool(item)} {orjson.dumps(told, option=orjson.OPT_SORT_KEYS).decode()}"
    return orjson.dumps(item, option=orjson.OPT_SORT_KEYS).decode()


def _texts(value: Any) -> set[str]:
    """Return every key and text in a value."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, Mapping):
        return set(value).union(*(_texts(item) for item in value.values()))
    return set().union(*map(_texts, value)) if isinstance(value, list) else set()


def _held(documents: QuerySet[ConfigDocument]) -> dict[UUID, Document]:
    rows = documents.values_list("node_id", "document")
    return {pk: _only(document) for pk, document in rows.iterator(chunk_size=200)}


def _only(document: Mapping[str, Any]) -> Document:
    return {key: document[key] for key in SECTIONS if key in document}


def _error(use: Use, before: Document, after: Document, chain: Sequence[Level], below: str) -> FieldError:
    """Say what is broken: at what the write switched, the item used or the one that uses it."""
    item_switched = not same(
        _state(before, use.section, use.name), _state(after, use.section, use.name)
    ) and not changed_at(before, after, use.at)
    place = use.item if item_switched else use.at
    missing = _missing(use, after)
    state = "is not configured" if missing else "is disabled"
    setter = _setter(chain, use.item if not missing else use.at)
    level = f" (set by {setter})" if setter else ""
    at = f" at {below}" if below else ""
    advice = _suggestion(use, after) if missing else f" Enable it, or stop {use.user} from using it."
    detail = f"{use.user}{at} uses the {use.noun} {_named(use.name)}, which {state}{level}.{advice}"
    return FieldError(redact_text(encode(place)), "dependency_broken", detail)


def _setter(chain: Sequence[Level], path: Tokens) -> str:
    """Return the lowest level whose own document says whether the item at ``path`` is enabled, or what it is."""
    for way in ((*path, "enabled"), path):
        for level in reversed(chain):
            if seen(level.document, way)[1] is not MISSING:
                return level.node
    return ""


def _suggestion(use: Use, document: Document) -> str:
    items = get(document, (use.section,))
    names = [name for name in items if name != use.name] if isinstance(items, Mapping) else []
    close = get_close_matches(use.name, names, n=1)
    return f" Did you mean {_named(close[0])}?" if close else ""


def _named(name: str) -> str:
    return repr(redact_text(name)[:100])
