"""JSON documents for property tests: few keys, so that layers meet; every kind of value; empty objects and lists."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

#: For every property: no deadline, because the machine that runs the suite may be busy.
PROPERTY = settings(deadline=None)

KEYS = st.sampled_from(["a", "b", "c", "a/b", "m~n", "ü", "0"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from(["", "x", "0", "__INHERIT__"]),
    st.sampled_from([0.5, 1.0]),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=10,
)
DOCUMENTS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(KEYS, VALUES, max_size=4)

#: Documents in which a key of the first list always holds an object and one of the second never does: no type changes.
_LEAF = st.one_of(SCALARS, st.lists(VALUES, max_size=2))


def _shaped(depth: int) -> st.SearchStrategy[dict[str, Any]]:
    members: dict[str, st.SearchStrategy[Any]] = {"x": _LEAF, "y": _LEAF}
    if depth:
        members |= {"left": _shaped(depth - 1), "right": _shaped(depth - 1)}
    return st.fixed_dictionaries({}, optional=members)


SHAPED = _shaped(3)
