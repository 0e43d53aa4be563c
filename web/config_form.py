"""The form of one section of a node's own document: what it sets, what it inherits, what binds it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote

from django.conf import settings

from controlplane.configs.merge import Shadowed, Source, merge, merge_all
from controlplane.configs.patterns import matches
from controlplane.configs.pointers import MISSING, Document, PointerSyntaxError, Tokens, decode, encode, get, leaves
from controlplane.configs.policies import Policy, policies_above
from controlplane.configs.selectors import StoredDocument, chain_documents, config_effective_for
from controlplane.core.actor import Actor
from controlplane.core.errors import AppError
from web.config_page import LeafBadge, policy_words
from web.config_specs import GENERAL, Spec, entry_specs, section_specs
from web.form_values import text_of
from web.json_text import parse_typed

DEFAULT: Final = "limits"
#: Names in a list of switches, and named things in a section, that one page shows.
LISTED: Final = 500
_NAME_LENGTH: Final = 200
#: Other names of settings, asked for only where a document uses them.
ALIASES: Final = frozenset({"mcps"})
_TAKES: Final = {
    "lines": "One per line.",
    "pairs": "One per line, as name: value.",
    "json": "As JSON.",
    "secret": "A reference such as ${NAME}, never the secret itself.",
}


@dataclass(frozen=True, slots=True)
class Typed:
    """What was typed: texts by pointer where they differ from what the node sets, and what is to be inherited again.

    ``entry`` is the named thing of the section, ``kind`` what a new one is to be.
    """

    section: str = DEFAULT
    entry: str = ""
    kind: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    resets: frozenset[str] = frozenset()

    def as_text(self) -> str:
        """Return it as the text that the pages carry on."""
        return json.dumps([self.section, self.entry, self.kind, dict(self.texts), sorted(self.resets)])

    @classmethod
    def from_text(cls, text: str) -> "Typed":
        """Return what :meth:`as_text` wrote; of anything else, an empty form."""
        try:
            # Strictly: neither endless nesting nor half characters, which no page could show again.
            section, entry, kind, texts, resets = parse_typed(text, field="text")
            good = all(isinstance(one, str) for one in (section, entry, kind, *texts.values(), *resets))
        except (AppError, ValueError, TypeError, AttributeError):
            return cls()
        return cls(section, entry, kind, texts, frozenset(resets)) if good and section in section_specs() else cls()


@dataclass(frozen=True, slots=True)
class Input:
    """One field. ``base`` is the text of what the node itself sets, ``text`` what is shown; ``own`` tells the first
    from nothing. ``inherited`` is the value from above in words, ``origin`` where it comes from."""

    pointer: str
    spec: Spec
    kind: str
    base: str
    text: str
    own: bool
    nulled: bool
    inherited: str
    origin: Source | Shadowed | None
    locked: str
    approval: str
    badges: tuple[LeafBadge, ...]
    suggestions: tuple[str, ...]
    reset: bool
    errors: tuple[str, ...]

    @property
    def id(self) -> str:
        return f"f{quote(self.pointer, safe='')}"

    @property
    def stands_in(self) -> str:
        """What the field shows while it is empty."""
        return self.inherited if len(self.inherited) < 200 else f"{self.inherited[:200]}…"

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """What there is to choose from, and what is chosen though it is not among them."""
        known = self.spec.choices
        others = self.text and self.text not in dict(known)
        return (*known, (self.text, self.text)) if others else known

    @property
    def takes(self) -> str:
        """How the field is written, in words."""
        if self.kind in {"whole", "number"} and self.spec.high is not None:
            low = f"{self.spec.low or 0:,}"
            return (
                f"More than {low}, at most {self.spec.high:,}." if self.spec.above else f"{low} to {self.spec.high:,}."
            )
        if self.kind == "lines" and self.inherited:
            return "One per line; [] for none of them."
        return _TAKES.get("secret" if self.spec.secret else self.kind, "")

    @property
    def rows(self) -> int:
        """Lines of an area that show what is in it, or what is inherited."""
        return min(16, max(3 if self.kind != "lines" else 2, (self.text or self.inherited).count("\n") + 1))


@dataclass(frozen=True, slots=True)
class Block:
    """Fields under one heading. ``adds`` is the pointer below which a further name may be switched on or off."""

    title: str
    help: str
    inputs: tuple[Input, ...]
    adds: str = ""
    name: str = ""
    state: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A named thing of a section."""

    name: str
    words: str
    own: bool
    off: bool


@dataclass(frozen=True, slots=True)
class Form:
    """One page. ``path`` is where its entry stands; ``others`` are places that are set and that no field shows."""

    section: Spec
    typed: Typed
    path: Tokens
    blocks: tuple[Block, ...]
    entries: tuple[Entry, ...]
    own: bool
    others: tuple[str, ...]
    pages: tuple[tuple[str, str, int], ...]

    @property
    def inputs(self) -> Iterator[Input]:
        return (one for block in self.blocks for one in block.inputs)

    @property
    def faulty(self) -> list[Input]:
        return [one for one in self.inputs if one.errors]

    @property
    def dropped(self) -> str:
        """The pointer by which all that the node sets for the entry can be taken out; ``""`` where there is none."""
        return encode(self.path) if self.own and self.section.kind == "map" else ""


def form_page_of(pointer: str) -> Typed | None:
    """Return the page of the form on which a place would be, ``None`` when there is none."""
    try:
        path = decode(pointer)
    except PointerSyntaxError:
        return None
    if not path:
        return None
    spec = section_specs().get(path[0])
    if spec is None:
        return Typed(GENERAL) if any(one.name == path[0] for one in section_specs()[GENERAL].fields) else None
    if spec.kind == "map":
        return Typed(spec.name, path[1]) if len(path) > 1 and is_entry_name(path[1]) else None
    return Typed(spec.name)


def is_entry_name(name: str) -> bool:
    """Return whether a named thing may be called so; whatever else a document holds is edited as JSON."""
    return 0 < len(name) <= _NAME_LENGTH and name.isprintable() and name == name.strip() and name != "*"


def form_of(
    *, actor: Actor, stored: StoredDocument, own: Document, typed: Typed, errors: Sequence[tuple[str, str]] = ()
) -> Form:
    """Return the page of the form that ``typed`` is of. Three queries.

    Args:
        actor: reads the node's configuration.
        stored: whose document.
        own: the document on which the form was made, usually the one that is stored.
        typed: the page, and what was typed there so far.
        errors: what is wrong, by pointer.
    """
    effective = config_effective_for(actor=actor, node_id=stored.node.pk)
    above = merge_all(document for _, document in chain_documents(stored.node.pk)[:-1])
    return _Builder(own, above, effective.sources, policies_above(stored.node.pk), typed, errors).form()


class _Builder:
    def __init__(
        self,
        own: Document,
        above: Document,
        sources: Mapping[str, Source],
        policies: Sequence[Policy],
        typed: Typed,
        errors: Sequence[tuple[str, str]],
    ) -> None:
        self.own, self.above, self.sources, self.policies = own, above, sources, policies
        self.effective = merge(above, own)
        self.typed, self.errors = typed, errors
        self._own_leaves = frozenset(pointer for pointer, _ in leaves(own, empty_objects=True))

    def form(self) -> Form:
        spec, path = section_specs()[self.typed.section], self._path()
        entries = tuple(self._entries(spec)) if spec.kind == "map" else ()
        blocks = tuple(self._blocks(spec, path))
        pages = tuple((one.name, one.label, self._count(one)) for one in section_specs().values())
        shown = {one.pointer for block in blocks for one in block.inputs}
        others = self._others(path, shown) if blocks and spec.name != GENERAL else ()
        own = bool(path) and get(self.own, path) is not MISSING
        return Form(spec, self.typed, path, blocks, entries, own, others, pages)

    def _path(self) -> Tokens:
        if self.typed.section == GENERAL:
            return ()
        if section_specs()[self.typed.section].kind == "map":
            return (self.typed.section, self.typed.entry)
        return (self.typed.section,)

    def _blocks(self, spec: Spec, path: Tokens) -> Iterator[Block]:
        if spec.kind == "map":
            if not is_entry_name(self.typed.entry):
                return
            kind = get(self.effective, (*path, "kind"))
            specs = entry_specs(spec.name, self.typed.kind if kind is MISSING else kind)
            yield from self._group("", "", specs, path)
        elif spec.name == GENERAL:
            yield from self._group("", "", spec.fields, ())
        else:
            yield from self._one(spec, path, top=True)

    def _group(self, title: str, words: str, specs: Sequence[Spec], path: Tokens) -> Iterator[Block]:
        inputs: list[Input] = []
        blocks: list[Block] = []
        for spec in specs:
            for block in self._one(spec, (*path, spec.name)):
                if block.title or block.adds:
                    blocks.append(block)
                else:
                    inputs.extend(block.inputs)
        if inputs:
            yield Block(title, words, tuple(inputs))
        yield from blocks

    def _one(self, spec: Spec, path: Tokens, *, top: bool = False) -> Iterator[Block]:
        value = get(self.effective, path)
        open_ = isinstance(value, Mapping) or value is MISSING
        if spec.name in ALIASES and value is MISSING:
            return
        if spec.kind == "switches" and open_:
            yield self._switches(spec, path)
        elif spec.kind == "group" and open_ and not (spec.plain and value is MISSING):
            yield from self._group("" if top or _is_single(spec) else spec.label, spec.help, spec.fields, path)
        else:
            whole = spec.kind in {"group", "switches", "map"}
            fits = spec.plain if value is MISSING or isinstance(value, str) else ""
            yield Block("", "", (self._input(spec, path, (fits or "json") if whole else spec.kind),))

    def _switches(self, spec: Spec, path: Tokens) -> Block:
        value = get(self.effective, path)
        names = list(value) if isinstance(value, Mapping) else []
        # What was added before the preview is there to be looked at again.
        names += [way[-1] for way in map(decode, self.typed.texts) if way[:-1] == path and way[-1] not in names]
        inputs: list[Input] = []
        for name in names[:LISTED]:
            way, one = (*path, name), get(value, (name,)) if isinstance(value, Mapping) else MISSING
            if isinstance(one, Mapping):
                way = (*way, "enabled")
            kind = "lines" if isinstance(one, list) else "switch"
            inputs.append(self._input(Spec(way[-1], kind, name), way, kind))
        return Block(spec.label, spec.help if not names else "", tuple(inputs), adds=encode(path))

    def _input(self, spec: Spec, path: Tokens, kind: str) -> Input:
        pointer = encode(path)
        own = get(self.own, path)
        bound = [policy for policy in self.policies if matches(policy.pattern, path)]
        kind, spec = _bounded(spec, kind, bound)
        kind, base = text_of(kind, own)
        above = get(self.above, path)
        start = self.typed.kind if path[-1] == "kind" and own is MISSING and above is MISSING else base
        return Input(
            pointer=pointer,
            spec=spec,
            kind=kind,
            base=base,
            text=self.typed.texts.get(pointer, start),
            own=own is not MISSING,
            nulled=own is None,
            inherited="" if above is MISSING else _words(kind, above),
            origin=None if above is MISSING else self._origin(pointer, own is not MISSING),
            locked=next((policy.node for policy in bound if policy.kind == "locked"), ""),
            approval=next((policy.node for policy in bound if policy.kind == "requires_approval"), ""),
            badges=tuple(
                policy_words(policy.kind, policy.value, policy.node)
                for policy in bound
                if policy.kind not in {"locked", "requires_approval"}
            ),
            suggestions=self._suggestions(path),
            reset=pointer in self.typed.resets,
            errors=tuple(words for place, words in self.errors if place == pointer or place.startswith(f"{pointer}/")),
        )

    def _origin(self, pointer: str, own: bool) -> Source | Shadowed | None:
        """Return where the value above comes from; of an object, where the first of its leaves does."""
        for place, source in self.sources.items():
            if place == pointer or place.startswith(f"{pointer}/"):
                if place not in self._own_leaves:
                    return source
                if own and source.shadowed:
                    return source.shadowed[0]
        return None

    def _suggestions(self, path: Tokens) -> tuple[str, ...]:
        if path == ("runtime", "kind"):
            return tuple(sorted(settings.AGENT_RUNTIMES))
        agents = get(self.effective, ("agents",))
        return tuple(agents)[:LISTED] if path == ("entrance_agent",) and isinstance(agents, Mapping) else ()

    def _entries(self, spec: Spec) -> Iterator[Entry]:
        found = get(self.effective, (spec.name,))
        # By name: PostgreSQL does not keep the order in which a document was written.
        for name, value in sorted(found.items() if isinstance(found, Mapping) else ())[:LISTED]:
            words = [value.get(key) for key in ("kind", "name", "type")] if isinstance(value, Mapping) else []
            off = value is None or (isinstance(value, Mapping) and value.get("enabled") is False)
            shown = next((one for one in words if isinstance(one, str)), "")
            yield Entry(name, shown, get(self.own, (spec.name, name)) is not MISSING, off)

    def _count(self, spec: Spec) -> int:
        names = [one.name for one in spec.fields] if spec.name == GENERAL else [spec.name]
        return sum(1 for pointer, _ in leaves(self.own) if decode(pointer)[0] in names)

    def _others(self, path: Tokens, shown: set[str]) -> tuple[str, ...]:
        prefix = f"{encode(path)}/"
        places = (pointer for pointer in self.sources if pointer.startswith(prefix))
        return tuple(
            place for place in places if not any(place == one or place.startswith(f"{one}/") for one in shown)
        )[:LISTED]


def _is_single(spec: Spec) -> bool:
    return len(spec.fields) == 1


def _bounded(spec: Spec, kind: str, policies: Sequence[Policy]) -> tuple[str, Spec]:
    """Return kind and spec as the policies narrow them, so that the browser tells before the server does."""
    for policy in policies:
        if policy.kind == "minimum":
            spec = replace(spec, low=max(policy.value, spec.low if spec.low is not None else policy.value))
        elif policy.kind == "maximum":
            spec = replace(spec, high=min(policy.value, spec.high if spec.high is not None else policy.value))
        elif policy.kind == "allowed_values" and kind in {"text", "choice"}:
            texts = [value for value in policy.value if isinstance(value, str)]
            kind, spec = "choice", replace(spec, choices=tuple((text, text) for text in texts))
    return kind, spec


def _words(kind: str, value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "on" if value else "off"
    return text_of(kind, value)[1]
