"""Markdown of agents: safe whatever it says."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.markdown import MAX_CHARS, render_markdown

PAYLOADS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![x](https://evil.example/pixel.png)",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:msgbox)",
    "<javascript:alert(1)>",
    '[x](https://a.example "onmouseover=alert(1)")',
    '[x](https://a.example/"onmouseover="alert(1))',
    "[x]: javascript:alert(1)\n\n[x]",
    "<svg/onload=alert(1)>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<style>*{display:none}</style>",
    '<form action="https://evil.example"><input name=password></form>',
    '<a href="https://a.example" style="position:fixed;inset:0">x</a>',
    '<p id="main" class="notice">x</p>',
    "```html\n<script>alert(1)</script>\n```",
    "`<script>alert(1)</script>`",
    "| <script>alert(1)</script> |\n|---|\n| <b onclick=alert(1)>x</b> |",
    "# <script>alert(1)</script>",
    "<!--><script>alert(1)</script>-->",
    "<base href='https://evil.example'>",
    "<meta http-equiv=refresh content='0;url=https://evil.example'>",
]
_ALLOWED = re.compile(
    r"</?(?:a|blockquote|br|code|del|em|h[3-6]|hr|li|ol|p|pre|s|strong|table|tbody|td|th|thead|tr|ul)"
    r"(?: (?:href|title|start|rel)=\"[^\"]*\")*>"
)


def assert_safe(html: str) -> None:
    rest = _ALLOWED.sub("", html)
    assert "<" not in rest, rest
    for href in re.findall(r'href="([^"]*)"', html):
        assert re.match(r"(?:https?|mailto):", href), href


@pytest.mark.parametrize("payload", PAYLOADS)
def test_markdown__hostile__leaves_only_harmless_tags(payload: str) -> None:
    assert_safe(render_markdown(payload))


@given(st.lists(st.sampled_from([*PAYLOADS, "\n", "> ", "- ", "    ", "**", "``", "]("]), max_size=8).map("".join))
def test_markdown__hostile_pieces_in_any_order__leave_only_harmless_tags(text: str) -> None:
    assert_safe(render_markdown(text))


@given(st.text(max_size=200))
def test_markdown__any_text__is_safe_and_never_fails(text: str) -> None:
    assert_safe(render_markdown(text))


def test_markdown__ordinary__is_laid_out() -> None:
    html = render_markdown(
        "# Cause\n\nIt is **the batch**.\n\n1. Pause\n\n| a |\n|---|\n| b |\n\n[doc](https://a.example)"
    )
    assert "<h3>Cause</h3>" in html
    assert "<strong>the batch</strong>" in html
    assert "<ol>" in html
    assert "<td>b</td>" in html
    assert '<a href="https://a.example" rel="noopener noreferrer nofollow">doc</a>' in html


def test_markdown__deep_nesting_and_great_length__stay_bounded() -> None:
    assert_safe(render_markdown("> " * 5_000 + "x"))
    assert_safe(render_markdown("[" * 5_000))
    long = render_markdown("<b>" * MAX_CHARS)
    assert long.startswith("<pre>&lt;b&gt;")
