"""Markdown of agents as safe HTML: parsed without raw HTML, then cleaned against a short list of what may remain."""

from typing import Final

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

#: Longer texts are shown as they are: laying out a book helps nobody, and parsing it costs the page.
MAX_CHARS: Final = 200_000
#: Headings of an answer are below those of the page it stands in.
HEADING_SHIFT: Final = 2

_TAGS: Final = {
    "a", "blockquote", "br", "code", "del", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s", "strong",
    "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
_ATTRIBUTES: Final = {"a": {"href", "title"}, "ol": {"start"}}
_SCHEMES: Final = {"http", "https", "mailto"}

# Images are off: a picture's address would tell a stranger's server that the page was read.
_parser = (
    MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"]).disable("image")
)


def render_markdown(text: str) -> SafeString:
    """Return ``text`` as HTML that holds no script, style, image, form or address but http(s) and mailto."""
    if len(text) > MAX_CHARS:
        return _clean(f"<pre>{nh3.clean_text(text)}</pre>")
    tokens = _parser.parse(text)
    _shift_headings(tokens)
    return _clean(_parser.renderer.render(tokens, _parser.options, {}))


def _shift_headings(tokens: list[Token]) -> None:
    for token in tokens:
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(6, int(token.tag[1]) + HEADING_SHIFT)}"


def _clean(html: str) -> SafeString:
    cleaned = nh3.clean(
        html, tags=_TAGS, attributes=_ATTRIBUTES, url_schemes=_SCHEMES, link_rel="noopener noreferrer nofollow"
    )
    return mark_safe(cleaned)  # noqa: S308 (cleaned on the line above)
