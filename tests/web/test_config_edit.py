"""Editing a node's own document on pages: preview, save, what is refused, what changed meanwhile."""

import html
import json
from typing import Any

import pytest
from django.test import Client

from controlplane.configs.models import ConfigDocument, ConfigVersion
from controlplane.configs.policy_services import policy_create
from controlplane.configs.services import config_patch
from controlplane.reviews.models import ReviewRequest
from tests.configs.test_api import streamed
from tests.factories import Tree
from tests.web.support import EVIL, Person

EDIT = "/app/config/payments/edit"


def document(tree: Tree) -> dict[str, Any]:
    row = ConfigDocument.objects.filter(pk=tree.payments.pk).first()
    return row.document if row else {}


def version(tree: Tree) -> int:
    return ConfigVersion.objects.filter(node=tree.payments).count()


def whole(value: Any, at: int, step: str = "preview", **fields: str) -> dict[str, Any]:
    text = value if isinstance(value, str) else json.dumps(value, indent=2)
    return {"mode": "document", "text": text, "version": at, "step": step} | fields


def single(pointer: str, value: str, at: int, step: str = "preview", **fields: str) -> dict[str, Any]:
    return {"mode": "value", "pointer": pointer, "value": value, "version": at, "step": step} | fields


def page_of(answer: Any) -> str:
    return html.unescape(answer.content.decode())


def rows(answer: Any) -> list[tuple[str, str, str, str]]:
    """Return pointer, sign, before and after of each row, with the origin of what is inherited."""
    return [
        (row.pointer, row.sign, *(f"{side.value} ({side.origin})" if side.origin else side.value for side in sides))
        for row in answer.context["rows"]
        for sides in [(row.before, row.after)]
    ]


@pytest.fixture
def configured(tree: Tree) -> Tree:
    config_patch(actor=tree.system, node=tree.root, patch={"limits": {"max_turns": 50, "wall_clock_s": 900}})
    config_patch(
        actor=tree.system, node=tree.payments, patch={"limits": {"max_turns": 20}, "preferences": {"tags": ["a"]}}
    )
    return tree


def test_edit__own_document_alone_is_in_the_text_never_what_is_inherited(configured: Tree, admin: Person) -> None:
    answer: Any = admin.client.get(f"{EDIT}?as=json")
    assert json.loads(answer.context["document"].text) == {"limits": {"max_turns": 20}, "preferences": {"tags": ["a"]}}
    assert 'name="version" value="1"' in page_of(answer)


def test_edit__pointer_given__value_in_force_and_its_meaning(configured: Tree, admin: Person) -> None:
    answer: Any = admin.client.get(f"{EDIT}?as=json&pointer=/limits/wall_clock_s")
    assert answer.context["single"].value == "900"
    assert "inherited from demo" in page_of(answer)
    assert "Seconds a run may take." in page_of(answer)
    assert "Inherit again" not in page_of(answer)
    assert "Inherit again" in page_of(admin.client.get(f"{EDIT}?as=json&pointer=/limits/max_turns"))


@pytest.mark.parametrize("pointer", ["nonsense", "/a~9", "/", "/limits/0/x", "/%00", "//"])
def test_edit__odd_pointer__the_page_is_there(configured: Tree, admin: Person, pointer: str) -> None:
    answer: Any = admin.client.get(EDIT, {"pointer": pointer})
    assert answer.status_code == 200
    assert answer.context["single"].value == ""


def test_preview__shows_the_difference_with_what_is_inherited_and_writes_nothing(
    configured: Tree, admin: Person
) -> None:
    wanted = {"limits": {"wall_clock_s": 600}, "preferences": {"tags": ["a", "b"]}, "runtime": {"kind": "builtin"}}
    answer = admin.client.post(EDIT, whole(wanted, 1))
    assert rows(answer) == [
        ("/limits/max_turns", "−", "20", "50 (inherited from demo)"),
        ("/preferences/tags", "~", '["a"]', '["a", "b"]'),
        ("/limits/wall_clock_s", "+", "900 (inherited from demo)", "600"),
        ("/runtime/kind", "+", "not set", '"builtin"'),
    ]
    assert "payments alone" in page_of(answer).lower()
    assert version(configured) == 1


def test_preview__nothing_differs__offers_no_save(configured: Tree, admin: Person) -> None:
    page = page_of(admin.client.post(EDIT, whole(document(configured), 1)))
    assert "Nothing would change" in page
    assert 'value="save"' not in page


def test_preview__of_a_group__says_who_below_is_affected(configured: Tree, owner: Person) -> None:
    data = single("/limits/max_turns", "30", 0)
    answer: Any = owner.client.post("/app/config/engineering/edit", data)
    assert answer.context["impact"].slugs == ("platform",)  # payments has a value of its own
    assert '<span class="origin">platform</span>' in page_of(answer)
    assert "impact.js" not in page_of(answer)


def test_preview__that_takes_long__shows_what_is_known_and_counts_on(
    configured: Tree, owner: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.configs.impact.STEP_NODES", 1)
    monkeypatch.setattr("controlplane.configs.foreseeing.INTERVAL_S", 0)
    monkeypatch.setattr("web.views.config_edit.IMPACT_PATIENCE_S", 0)
    url, data = "/app/config/demo/edit", single("/limits/max_turns", "30", 1)

    page = page_of(owner.client.post(url, data))
    assert "Demo, and at least 1 below: 1 of 3 nodes are counted so far." in page
    assert "web/js/impact" in page
    assert 'name="step" value="count" form="preview-form"' in page  # the way without a script

    lines = streamed(owner.client.post(url, data | {"step": "impact"}))
    assert [line["progress"]["done"] for line in lines[:-1]] == [1, 2, 3]
    assert lines[-1] == {"affected": {"count": 2, "slugs": ["engineering", "platform"]}}

    counted: Any = owner.client.post(url, data | {"step": "count"})
    assert counted.context["impact"].slugs == ("engineering", "platform")
    assert "so far" not in page_of(counted)


@pytest.mark.parametrize(
    ("wanted", "action"),
    [
        ({"limits": {"max_turns": 20, "max_tokens": None}, "preferences": {"tags": ["a"]}}, "config.patch"),
        ({"limits": {"max_turns": 20}}, "config.unset"),
        ({"limits": {"max_turns": 10}, "runtime": {"kind": "builtin"}}, "config.replace"),
        ({}, "config.unset"),
    ],
)
def test_save__writes_only_the_difference(configured: Tree, admin: Person, wanted: dict[str, Any], action: str) -> None:
    from controlplane.audit.models import AuditEvent

    answer = admin.client.post(EDIT, whole(wanted, 1, "save", reason="because"))
    assert answer["Location"] == "/app/config/payments"
    assert document(configured) == wanted
    row = ConfigVersion.objects.get(node=configured.payments, version=2)
    assert (row.by, row.reason) == ("ada", "because")
    assert AuditEvent.objects.filter(object_kind="config").latest("org_seq").action == action
    assert "Saved as version 2" in page_of(admin.client.get("/app/config/payments"))


def test_save__one_value__only_that_place(configured: Tree, admin: Person) -> None:
    admin.client.post(EDIT, single("/limits/wall_clock_s", "600", 1, "save"))
    assert document(configured) == {"limits": {"max_turns": 20, "wall_clock_s": 600}, "preferences": {"tags": ["a"]}}


def test_save__inherit_again__removes_the_override(configured: Tree, admin: Person) -> None:
    data = {"mode": "unset", "pointer": "/limits/max_turns", "version": 1}
    answer = admin.client.post(EDIT, data)
    assert rows(answer) == [("/limits/max_turns", "−", "20", "50 (inherited from demo)")]
    admin.client.post(EDIT, data | {"step": "save"})
    assert document(configured) == {"preferences": {"tags": ["a"]}}


def test_save__what_is_stored_already__is_no_version(configured: Tree, admin: Person) -> None:
    admin.client.post(EDIT, whole(document(configured), 1, "save"))
    assert version(configured) == 1


def test_back_to_editing__keeps_the_text(configured: Tree, admin: Person) -> None:
    text = '{\n  "preferences": {"x": "é\\n"}  }'
    answer: Any = admin.client.post(EDIT, whole(text, 1, "edit"))
    assert answer.context["document"].text == text


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        ('{\n  "limits": {\n    "max_turns": 1,\n  }\n}', "is not JSON", 4),
        ('{"a": 1, "a": 2}', "appears twice", None),
        ("[]", "must be a JSON object", None),
        ("", "This is empty", None),
        ('{"a": NaN}', "NaN is not JSON", None),
    ],
)
def test_preview__text_that_is_no_document__error_at_the_field_with_its_line(
    configured: Tree, admin: Person, text: str, words: str, line: int | None
) -> None:
    answer: Any = admin.client.post(EDIT, whole(text, 1))
    assert answer.status_code == 422
    assert words in answer.context["problem"].fields["text"]
    assert answer.context["problem"].text_line in (line, 3)
    assert answer.context["document"].text == text
    assert 'aria-describedby="text-hint text-error"' in page_of(answer)


def test_preview__broken_rules__each_with_pointer_and_line(configured: Tree, admin: Person) -> None:
    text = '{\n  "limits": {\n    "max_turns": 0,\n    "wall_clock_s": "x"\n  }\n}'
    answer: Any = admin.client.post(EDIT, whole(text, 1))
    assert [(fault.pointer, fault.line) for fault in answer.context["problem"].faults] == [
        ("/limits/max_turns", 3),
        ("/limits/wall_clock_s", 4),
    ]
    assert 'data-line="3"' in page_of(answer)
    assert version(configured) == 1


def test_preview__literal_secret__is_refused_and_repeated_only_in_the_own_text(configured: Tree, admin: Person) -> None:
    secret = "ghp_" + "a1B2" * 9
    answer: Any = admin.client.post(EDIT, whole({"integrations": {"github": {"token": secret}}}, 1))
    assert answer.status_code == 422
    (fault,) = answer.context["problem"].faults
    assert (fault.pointer, secret in fault.detail) == ("/integrations/github/token", False)
    assert page_of(answer).count(secret) == 1


@pytest.mark.parametrize(
    ("pointer", "value", "field"),
    [
        ("limits", "1", "pointer"),
        ("", "1", "pointer"),
        ("/agents/*/enabled", "true", "pointer"),
        ("/preferences/tags/0", '"b"', "pointer"),
        ("/limits/max_turns", "many", "value"),
        ("/limits/max_turns", "", "value"),
        ("/limits/max_turns", "0", "value"),
    ],
)
def test_preview__one_value_wrong__error_at_its_field_and_the_typing_kept(
    configured: Tree, admin: Person, pointer: str, value: str, field: str
) -> None:
    answer: Any = admin.client.post(EDIT, single(pointer, value, 1))
    assert answer.status_code == 422
    assert list(answer.context["problem"].fields) == [field]
    assert (answer.context["single"].pointer, answer.context["single"].value) == (pointer, value)
    assert f'id="{field}-error"' in page_of(answer)


def test_preview__locked_above__names_level_and_rule(configured: Tree, admin: Person) -> None:
    policy_create(actor=configured.system, node=configured.root, pointer="/limits/wall_clock_s", kind="locked")
    answer: Any = admin.client.post(EDIT, single("/limits/wall_clock_s", "5", 1))
    assert answer.status_code == 403
    assert "demo has locked this at 900." in answer.context["problem"].fields["value"]


def test_stale__document__shows_what_changed_keeps_the_text_and_puts_it_on_top(configured: Tree, admin: Person) -> None:
    config_patch(actor=configured.system, node=configured.payments, patch={"limits": {"max_tokens": 1000}})
    mine = {"limits": {"max_turns": 10}, "preferences": {"tags": ["a"]}}
    answer: Any = admin.client.post(EDIT, whole(mine, 1, "save"))
    assert answer.status_code == 412
    problem = answer.context["problem"]
    assert (problem.current, [row.pointer for row in problem.meanwhile]) == (2, ["/limits/max_tokens"])
    assert json.loads(answer.context["document"].text) == mine
    assert (answer.context["document"].version, version(configured)) == (1, 2)
    again: Any = admin.client.post(EDIT, whole(mine, 1, "rebase"))
    assert rows(again) == [("/limits/max_turns", "~", "20", "10")]
    draft = again.context["draft"]
    admin.client.post(EDIT, whole(draft.text, draft.version, "save"))
    assert document(configured)["limits"] == {"max_turns": 10, "max_tokens": 1000}


def test_stale__both_changed_one_place__says_so(configured: Tree, admin: Person) -> None:
    config_patch(actor=configured.system, node=configured.payments, patch={"limits": {"max_turns": 30}})
    answer: Any = admin.client.post(EDIT, single("/limits/max_turns", "10", 1, "save"))
    assert [(row.pointer, row.yours) for row in answer.context["problem"].meanwhile] == [("/limits/max_turns", True)]
    assert answer.context["single"].version == 2
    assert document(configured)["limits"] == {"max_turns": 30}


def test_approval__needed__the_button_asks_for_it_and_a_reason_is_wanted(configured: Tree, admin: Person) -> None:
    policy_create(actor=configured.system, node=configured.root, pointer="/limits", kind="requires_approval")
    page = page_of(admin.client.post(EDIT, single("/limits/max_turns", "10", 1)))
    assert "Request approval" in page
    assert "Needs approval" in page
    data = single("/limits/max_turns", "10", 1, "save", approval="1")
    refused = admin.client.post(EDIT, data)
    assert (refused.status_code, ReviewRequest.objects.count()) == (422, 0)
    assert "Say why" in page_of(refused)
    answer = admin.client.post(EDIT, data | {"reason": "Too slow"})
    review = ReviewRequest.objects.get()
    assert answer["Location"] == f"/app/reviews/{review.pk}"
    assert (review.reason, review.requested_by, version(configured)) == ("Too slow", admin.actor.principal, 1)


def test_reason__too_long__error_at_its_field(configured: Tree, admin: Person) -> None:
    answer: Any = admin.client.post(EDIT, single("/limits/max_turns", "10", 1, "save", reason="x" * 501))
    assert answer.status_code == 422
    assert 'id="reason-error"' in page_of(answer)
    assert version(configured) == 1


def test_hostile_values__are_text_on_every_page(configured: Tree, admin: Person) -> None:
    wanted = {"preferences": {"x": EVIL}, f"/{EVIL[:8]}": 1}
    for step in ("preview", "save"):
        assert "<script>alert" not in admin.client.post(EDIT, whole(wanted, 1, step)).content.decode()
    for path in ("", "/edit", "/history", "/compare", "/policies", "/credentials"):
        assert "<script>alert" not in admin.client.get(f"/app/config/payments{path}").content.decode()


ODD = ["", "\x00", "a" * 5000, "9" * 30, '{"a"', "[" * 100, "${"]
SENT = [
    ("document", "save", "text"),
    ("document", "save", "version"),
    ("document", "rebase", "text"),
    ("value", "save", "pointer"),
    ("value", "save", "value"),
    ("value", "save", "reason"),
    ("unset", "save", "pointer"),
    ("rollback", "save", "target"),
    ("value", "preview", "mode"),
    ("value", "preview", "step"),
    ("form", "save", "text"),
    ("form", "preview", "section"),
    ("form", "preview", "entry"),
    ("form", "preview", "kind"),
    ("form", "preview", "version"),
    ("form", "preview", "v/limits/max_turns"),
    ("form", "preview", "reset"),
]


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
def test_forms__odd_input_in_every_field__is_refused_in_words(configured: Tree, owner: Person, odd: str) -> None:
    base = "/app/config/payments"
    answers = []
    for mode, step, name in SENT:
        fields = {"mode": mode, "step": step, "version": "1", "text": "{}", "pointer": "/a", "value": "1"}
        if mode == "form" and name != "text":
            del fields["text"]
            fields["section"] = "limits" if name != "entry" else "agents"
        answers.append(owner.client.post(f"{base}/edit", fields | {name: odd}))
    for name in ("pointer", "kind", "value", "reason"):
        fields = {"pointer": "/a", "kind": "maximum", "value": "1"} | {name: odd}
        answers.append(owner.client.post(f"{base}/policies", fields))
    fields = {"name": "OPENSRE_CRED_X", "hosts": "a"}
    answers += [owner.client.post(f"{base}/credentials", fields | {name: odd}) for name in fields]
    query = dict.fromkeys(("pointer", "cursor", "a", "b", "name", "section", "entry", "kind", "as"), odd)
    answers += [owner.client.get(f"{base}/{path}", query) for path in ("edit", "history", "compare", "credentials")]
    answers.append(owner.client.get("/app/reviews", {"show": odd, "cursor": odd}))
    assert [answer.status_code for answer in answers if answer.status_code >= 500] == []
    assert "Traceback" not in "".join(answer.content.decode() for answer in answers)


PAGES = ["/edit", "/history", "/compare", "/policies", "/credentials"]


@pytest.mark.parametrize("path", PAGES)
def test_pages__who_may_read_reads__others_do_not_find_them(
    configured: Tree, viewer: Person, responder: Person, anonymous: Client, path: str
) -> None:
    for person in (viewer, responder):
        page = person.client.get(f"/app/config/payments{path}").content.decode()
        assert "Payments" in page
        assert '<button class="button primary"' not in page  # nothing to send
    assert viewer.client.get(f"/app/config/platform{path}").status_code == 404
    assert anonymous.get(f"/app/config/payments{path}")["Location"].startswith("/login/")


@pytest.mark.parametrize("path", PAGES)
def test_pages__another_organization__is_not_there(tree: Tree, outsider: Person, path: str) -> None:
    assert outsider.client.get(f"/app/config/engineering{path}").status_code == 200  # its own, of the same slug
    assert outsider.client.get(f"/app/config/demo{path}").status_code == 404


@pytest.mark.parametrize("step", ["preview", "save", "rebase", "edit"])
def test_edit__who_may_only_read__may_not_send(
    configured: Tree, viewer: Person, responder: Person, reviewer: Person, outsider: Person, step: str
) -> None:
    data = single("/limits/max_turns", "10", 1, step)
    assert [one.client.post(EDIT, data).status_code for one in (viewer, responder, reviewer)] == [403, 403, 403]
    assert outsider.client.post("/app/config/demo/edit", data).status_code == 404
    assert (document(configured)["limits"], version(configured)) == ({"max_turns": 20}, 1)


def test_edit__no_csrf_token__nothing_is_written(configured: Tree, admin: Person) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(admin.user)
    answer = strict.post(EDIT, single("/limits/max_turns", "10", 1, "save"))
    assert (answer.status_code, version(configured)) == (403, 1)


def test_history__lists_and_compares_and_rolls_back_as_a_new_version(configured: Tree, admin: Person) -> None:
    config_patch(actor=admin.actor, node=configured.payments, patch={"limits": {"max_turns": 99}}, reason="More")
    listed: Any = admin.client.get("/app/config/payments/history")
    assert [(row.version, row.by, row.reason) for row in listed.context["versions"]] == [
        (2, "ada", "More"),
        (1, "test", ""),
    ]
    compared = admin.client.get("/app/config/payments/compare?a=2&b=1")  # the order does not matter
    assert rows(compared) == [("/limits/max_turns", "~", "20", "99")]
    assert len(rows(admin.client.get("/app/config/payments/compare?a=0&b=1"))) == 2
    data = {"mode": "rollback", "target": 1, "version": 2}
    preview = admin.client.post(EDIT, data)
    assert rows(preview) == [("/limits/max_turns", "~", "99", "20")]
    assert version(configured) == 2
    admin.client.post(EDIT, data | {"step": "save", "reason": "Too many"})
    assert (version(configured), document(configured)["limits"]) == (3, {"max_turns": 20})


def test_rollback__stale_or_unknown_version__says_so_and_writes_nothing(configured: Tree, admin: Person) -> None:
    for data in ({"target": 0, "version": 7}, {"target": 55, "version": 1}):
        answer = admin.client.post(EDIT, {"mode": "rollback", "step": "save"} | data)
        assert answer["Location"] == "/app/config/payments/history"
    page = page_of(admin.client.get("/app/config/payments/history"))
    assert "changed meanwhile" in page
    assert "no such version" in page
    assert version(configured) == 1


@pytest.mark.parametrize("query", ["a=9&b=1", "a=x&b=1", "b=99999999999999999999", "a=-1", "a=9223372036854775807"])
def test_compare__no_such_version__is_not_there(configured: Tree, admin: Person, query: str) -> None:
    assert admin.client.get(f"/app/config/payments/compare?{query}").status_code == 404


def test_history__nothing_written__says_so(tree: Tree, admin: Person) -> None:
    assert "No versions yet" in page_of(admin.client.get("/app/config/payments/history"))
    assert "No difference" in page_of(admin.client.get("/app/config/payments/compare"))
    assert admin.client.get("/app/config/payments/history?cursor=x")["Location"] == "/app/config/payments/history"
