"""The report as a markdown file: complete, numbered, and nothing in it but what we put there as markup."""

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from controlplane.investigations.models import Thread
from controlplane.runtimes import events
from controlplane.runtimes.evidence import Observation
from controlplane.runtimes.sources.drafts import series_draft
from controlplane.runtimes.sources.records import Baseline, Series
from tests.factories import Tree
from tests.support.evidence import START, step
from tests.web.support import EVIL, Person, finish, observed, report, start
from web.export import code_span, inert

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
MARKUP = st.text(
    st.sampled_from("ab1 .)(-+#=*_~`[]<>|!:/\\&;\"'@\n\t\u202e\u2028\x00") | st.characters(codec="utf-8"), max_size=40
)
QUERY = 'rate(node_cpu_seconds_total{mode="idle"}[5m])'
#: Everything that would be markup if it came through.
HOSTILE = (
    f"{EVIL}\n# Heading\n- item\n1. one\n> quote\n```\ncode\n| a | b |\n| --- | --- |\n[x](javascript:alert(1)) "
    "![i](http://evil/i.png) **bold** `c` https://evil.example &lt;b&gt;\n===\n---\n[1]: http://evil"
)


def series(values: list[float], **fields: Any) -> Series:
    times = tuple(START + timedelta(minutes=minute) for minute in range(len(values)))
    made = Series("prometheus", "db-1", "CPU", times, tuple(values), "Percent", "Average", QUERY)
    return replace(made, **fields)


def measured(*all_series: Series) -> events.ToolEnd:
    """Return the end of a tool call that read metrics: ``t1-1.1``, ``t1-1.2``, …"""
    drafts = [series_draft(one) for one in all_series]
    observations = tuple(
        Observation(
            id=f"t1-1.{n}",
            source=draft.source,
            object=draft.object,
            kind=draft.kind,
            at=draft.at,
            value=draft.value,
            quote=draft.quote,
        )
        for n, draft in enumerate(drafts, 1)
    )
    return events.ToolEnd(tool_use_id="t1-1", name="query_metrics", success=True, observations=observations)


def finished(person: Person, tree: Tree, *, tool_end: events.ToolEnd, prompt: str = "Why?", **fields: Any) -> str:
    """Return the path of a finished run's report."""
    started = start(person, tree.payments, prompt=prompt, alert=fields.pop("alert", None))
    result = events.Result(text="Done.", success=True, report=report(**fields))
    finish(started, result=result, tool_end=tool_end)
    return f"/app/threads/{started.thread.pk}/runs/{started.run.pk}/report"


def plain(html: str) -> str:
    return re.sub("<[^>]+>", "", html)


@given(text=MARKUP)
def test_inert__any_text__is_one_paragraph_of_plain_text(text: str) -> None:
    written = inert(text)
    assert "\n" not in written
    assert not re.search("[<>]", written)
    for before, after in (("", ""), ("word ", " word"), ("- ", ""), ("> ", ""), ("1. ", ": x"), ("## ", "")):
        tokens = PARSER.parse(f"{before}{written}{after}")
        allowed = {"- ": "bullet_list", "> ": "blockquote", "1. ": "ordered_list", "## ": "heading"}.get(before, "")
        blocks = {token.type.rpartition("_")[0] for token in tokens if token.type != "inline"}
        assert blocks <= {"paragraph", allowed, "list_item"}
        inline = [token for token in tokens if token.type == "inline"]
        assert {child.type for token in inline for child in token.children or ()} <= {"text"}
    shown = "".join(child.content for token in PARSER.parse(f"x{written}") for child in token.children or ())
    assert re.sub(r"\s", "", shown) == "x" + re.sub(
        r"[\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]", "", text
    )


@given(text=MARKUP)
def test_code_span__any_text__is_one_piece_of_code(text: str) -> None:
    (paragraph,) = [token for token in PARSER.parse(f"x {code_span(text)}") if token.type == "inline"]
    assert [child.type for child in paragraph.children or ()] == ["text", "code_inline"]


@pytest.mark.parametrize("text", ["-5 %", "40.7 %", "+1", "#hashtag", "1.2.3", "a - b"])
def test_inert__what_is_no_markup__stays_readable(text: str) -> None:
    assert inert(text) == text


@pytest.mark.parametrize("text", ["see https://evil.example/x", "WWW.evil.example", "me@evil.example", "mailto:a"])
def test_inert__addresses__are_no_links_of_their_own(text: str) -> None:
    assert re.search(r"\\[:.@]", inert(text))


def test_export__finished__has_every_part_in_order(responder: Person, tree: Tree) -> None:
    tool_end = measured(series(step(40, 99, place=12)))
    path = finished(responder, tree, tool_end=tool_end, prompt="Why is it slow?\nSince when?", alert={"title": "Slow"})
    answer = responder.client.get(f"{path}.md")
    text = answer.content.decode()
    assert answer["Content-Type"] == "text/markdown; charset=utf-8"
    assert re.fullmatch(
        r'attachment; filename="report-\d{4}-\d\d-\d\d-replica-lags-behind-a-batch\.md"', answer["Content-Disposition"]
    )
    assert re.findall("^#.*", text, re.MULTILINE) == [
        "# Replica lags behind a batch", "## Question", "## What failed", "## Impact", "## Evidence",
        "## Timeline (UTC)", "## Also possible", "## Ruled out", "## Not checked", "## Next steps", "## Lessons",
        "## Metrics (UTC)", "### CPU of db-1 (average) \\[2\\]", "## Cited observations",
    ]  # fmt: skip
    assert "> Why is it slow?\n> Since when?\n\nAlert: Slow\n" in text
    assert "**Root cause: resource exhaustion** (confidence 82%). A bulk update outruns the replica. \\[1, 2\\]" in text
    assert "payments-prod: A batch writes too much. \\[1, 2\\]" in text
    assert "- Lag grows. \\[1, 3\\]\n- Inferred: It is the settlement job.\n" in text
    assert "CPU of db-1 rose from 40 % to 99 % at 08:12 UTC." in text
    assert f"`{QUERY}`" in text
    assert "2. db-1 (prometheus): CPU of db-1 (average)" in text
    assert "3. t9-9.9 is not in the log." in text
    assert "1. t1-1.2 is not in the log." in text
    assert text.endswith("\n")


def test_export__metric__is_a_table_of_at_most_24_rows_with_the_change_marked(responder: Person, tree: Tree) -> None:
    path = finished(responder, tree, tool_end=measured(series(step(40, 99, 100, place=60))))
    html = PARSER.render(responder.client.get(f"{path}.md").content.decode())
    (table,) = re.findall(r"<table>.*?</table>", html, re.DOTALL)
    rows = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)]
    assert rows[0][:2] == ["Time", "Value"]
    assert len(rows) - 1 <= 24
    assert [row for row in rows if row[2] == "changed here"] == [["2026-03-03 09:00", "100 %", "changed here"]]


def test_export__hostile_evidence__makes_no_markup_of_its_own(responder: Person, tree: Tree) -> None:
    hostile = series(step(40, 99), object=HOSTILE[:150], metric=HOSTILE[:180], unit="|`<b>`|", query=f"a``b{HOSTILE}")
    fields = {"title": HOSTILE, "summary": HOSTILE, "lessons": (HOSTILE,), "causal_chain": (HOSTILE,)}
    alert = {"title": HOSTILE, "commonAnnotations": {"summary": HOSTILE}}
    path = finished(responder, tree, tool_end=measured(hostile), prompt=HOSTILE, alert=alert, **fields)
    text = responder.client.get(f"{path}.md").content.decode()
    html = PARSER.render(text)
    assert not re.search(r"<(a|script|img|pre|strong|em|s|hr)\b", html.replace("<strong>Root cause", ""))
    headings = [plain(line) for line in re.findall(r"<h\d>.*?</h\d>", html)]
    assert [words for words in headings if words.startswith("Heading")] == []
    assert len(re.findall("<table>", html)) == 1
    for code in re.findall(r"`+[^`\n]*`", text):
        text = text.replace(code, "")  # within code nothing is markup
    assert "<script" not in text


def test_export__no_change_and_no_metric__leaves_the_parts_out(responder: Person, tree: Tree) -> None:
    path = finished(responder, tree, tool_end=observed(), root_cause=None)
    text = responder.client.get(f"{path}.md").content.decode()
    assert "## Metrics" not in text
    assert "**No root cause stated.** A bulk update outruns the replica." in text
    assert "1. replica-1 (events): fell behind" in text


def test_export__run_without_a_report__is_not_there(responder: Person, tree: Tree) -> None:
    started = finish(start(responder, tree.payments), result=events.Result(text="Just words.", success=True))
    answer = responder.client.get(f"/app/threads/{started.thread.pk}/runs/{started.run.pk}/report.md")
    assert answer.status_code == 404


def test_export__title_without_a_letter__is_named_after_the_run(responder: Person, tree: Tree) -> None:
    path = finished(responder, tree, tool_end=observed(), title='"\r\n; ☃')
    disposition = responder.client.get(f"{path}.md")["Content-Disposition"]
    assert re.fullmatch(r'attachment; filename="report-[0-9a-f-]+\.md"', disposition)


def test_report__metrics__are_drawn_with_change_band_and_query(responder: Person, tree: Tree) -> None:
    one = series(step(40, 99, place=12), baseline=Baseline(40, 40, 1, 38, 42, 500))
    html = responder.client.get(finished(responder, tree, tool_end=measured(one))).content.decode()
    words = "CPU of db-1 rose from 40 % to 99 % at 08:12 UTC; normal is 38 % to 42 %"
    assert f'role="img" aria-label="{words}"' in html
    assert f"<title>{words}</title>" in html
    assert re.search(r'<rect class="plot-change" x="[\d.]+" y="[\d.]+" width="1.5" height="[\d.]+"/>', html)
    assert re.search(r'<text class="plot-when"[^>]*>08:12</text>', html)
    assert re.search(r'<rect class="plot-band" x="[\d.]+" y="[\d.]+" width="[\d.]+" height="[\d.]+"/>', html)
    assert QUERY.replace('"', "&quot;") in html
    (target,) = re.findall(r'class="cite num" href="#(evidence-[^"]+)" data-object="db-1"', html)
    assert f'<li id="{target}">' in html
    assert "style=" not in html


def test_report__many_metrics__eight_first_and_the_rest_folded_each_once(responder: Person, tree: Tree) -> None:
    drawn = [series(step(10, 20 + n), object=f"db-{n}") for n in range(11)]
    tool_end = measured(*drawn, drawn[0])
    claim = {"text": "All of them.", "citations": tuple(f"t1-1.{n}" for n in range(1, 13))}
    html = responder.client.get(finished(responder, tree, tool_end=tool_end, claims=(claim,))).content.decode()
    shown, folded = html.split('<details class="fold more-plots">')
    assert shown.count('<figure class="plot">') == 8
    assert folded.count('<figure class="plot">') == 3
    # The root cause rests on t1-1.2 and t1-1.1, in this order.
    assert re.findall(r'plot-object mono soft">(db-\d+)<', shown)[:2] == ["db-1", "db-0"]


def test_report__hostile_metric__stays_text(responder: Person, tree: Tree) -> None:
    hostile = series(step(40, 99), object=EVIL, metric=EVIL, unit='"><b>', query=EVIL)
    html = responder.client.get(finished(responder, tree, tool_end=measured(hostile))).content.decode()
    assert '<svg class="plot-drawing"' in html
    assert not re.search(r"<script|<img|<b>", html)


def test_report__no_metric__has_no_section(responder: Person, team_thread: Thread) -> None:
    html = responder.client.get(f"/app/threads/{team_thread.pk}").content.decode()
    assert "Replica lags" in html
    assert "<h3>Metrics" not in html
    assert "/report.md" in html


def test_report__metrics_of_one_query__whole_query_once_and_the_alert_is_marked(responder: Person, tree: Tree) -> None:
    drawn = [series(step(10, 20 + n, place=12), object=f"db-{n}") for n in range(2)]
    alert = {"title": "Slow", "startsAt": (START + timedelta(minutes=15)).isoformat()}
    html = responder.client.get(finished(responder, tree, tool_end=measured(*drawn), alert=alert)).content.decode()
    assert html.count('<details class="plot-query">') == 1
    assert html.count("<p>Query: that of 1</p>") == 1
    assert html.count('<line class="plot-alert"') == 2
    assert 'text-anchor="start">alert</text>' in html
    assert html.count("; the alert began at 08:15 UTC") == 4  # label and title of both


def test_report__alert_before_the_charts__is_not_marked(responder: Person, tree: Tree) -> None:
    alert = {"title": "Slow", "startsAt": (START - timedelta(minutes=15)).isoformat()}
    one = series(step(40, 99, place=12))
    html = responder.client.get(finished(responder, tree, tool_end=measured(one), alert=alert)).content.decode()
    assert '<path class="plot-line"' in html
    assert "plot-alert" not in html
    assert "the alert began" not in html


def test_export__alert_of_alertmanager__is_named_by_its_labels(responder: Person, tree: Tree) -> None:
    alert = {"commonLabels": {"alertname": "FrontendErrors"}, "commonAnnotations": {"summary": "frontend fails"}}
    path = finished(responder, tree, tool_end=observed(), alert=alert)
    assert "\nAlert: FrontendErrors — frontend fails\n" in responder.client.get(f"{path}.md").content.decode()
