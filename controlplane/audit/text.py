"""Text as every database's columns take it."""


def column_text(value: str, length: int) -> str:
    """Return ``value`` cut to ``length``, without what PostgreSQL refuses.

    Its text takes no NUL, and a lone surrogate has no UTF-8: neither may keep an act from being recorded.
    """
    return value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")[:length]
