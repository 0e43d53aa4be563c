"""Walking through paginated lists."""

from typing import Any

from rest_framework.test import APIClient


def every_page(client: APIClient, url: str, *, limit: int) -> list[list[Any]]:
    """Return the rows of every page of a list, page by page."""
    pages: list[list[Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = client.get(url, {"limit": str(limit), "cursor": cursor}).json()
        pages.append(page["results"])
        cursor = page["next"]
    return pages
