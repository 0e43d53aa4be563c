"""Which documents below a node a change can meet: conditions for the database, so that the others are never read.

A condition may let through a document that turns out not to matter; it never keeps one back that does.
"""

import json
from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_
from typing import Any, ClassVar, Final
from uuid import UUID

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import CharField, F, Func, Q, QuerySet, TextField
from django.db.models.functions import Cast
from django.db.models.lookups import Contains, Exact, IsNull
from django.db.models.sql.compiler import SQLCompiler
from typing_extensions import override

from controlplane.configs.models import ConfigDocument
from controlplane.configs.pointers import Tokens

#: A condition on more places or names than this costs more than it spares; it is then made coarser.
MOST_PATHS: Final = 40
MOST_NAMES: Final = 60


class TypeAt(Func):
    """The JSON type of what a document holds at a path of object keys; NULL where there is nothing."""

    output_field: ClassVar = CharField()

    def __init__(self, path: Tokens) -> None:
        super().__init__(F("document"))
        self.path = path

    @override
    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, *_: Any, **_context: Any) -> Any:
        column, params = compiler.compile(self.source_expressions[0])
        return f"jsonb_typeof({column} #> %s::text[])", [*params, list(self.path)]

    @override
    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_context: Any) -> Any:
        column, params = compiler.compile(self.source_expressions[0])
        return f"json_type({column}, %s)", [*params, "$" + "".join(f'."{token}"' for token in self.path)]


def documents_below(root: UUID) -> QuerySet[ConfigDocument]:
    """Return the documents that nodes below ``root`` have written."""
    return ConfigDocument.objects.filter(node__above__ancestor_id=root, node__above__depth__gt=0, version__gt=0)


def touching(paths: Iterable[Tokens]) -> Q:
    """Return the condition that a document holds something at one of ``paths``, or hides it by what is in its way."""
    wanted = {_addressable(path) for path in paths}
    for length in (3, 2, 1, 0):
        if len(wanted) > MOST_PATHS:
            wanted = {path[:length] for path in wanted}
    if () in wanted:
        return Q()
    hidden = {path[:end] for path in wanted for end in range(1, len(path))} - wanted
    return _any([*(_there(path) for path in sorted(wanted)), *(not_object(path) for path in sorted(hidden))])


def not_object(path: Tokens) -> Q:
    """Return the condition that something else than an object is at ``path``."""
    return ~Q(Exact(TypeAt(path), "object"))


def is_list(path: Tokens) -> Q:
    """Return the condition that a list is at ``path``."""
    return Q(Exact(TypeAt(path), "array"))


def mentioning(names: Iterable[str]) -> Q:
    """Return the condition that a document has one of ``names`` as a key or as a text, anywhere."""
    text = Cast("document", TextField())
    # SQLite holds the text that Django wrote, PostgreSQL writes it anew.
    ascii_only = connection.vendor == "sqlite"
    return _any(Q(Contains(text, json.dumps(name, ensure_ascii=ascii_only))) for name in sorted(names))


def _any(conditions: Iterable[Q]) -> Q:
    return reduce(or_, conditions)


def _there(path: Tokens) -> Q:
    return Q(IsNull(TypeAt(path), False))


def _addressable(path: Tokens) -> Tokens:
    """Return a path up to the first key that SQLite cannot name in one of its own paths."""
    return tuple(_plain(path))


def _plain(path: Tokens) -> Iterator[str]:
    for token in path:
        if not token.isascii() or '"' in token or "\\" in token:
            return
        yield token
