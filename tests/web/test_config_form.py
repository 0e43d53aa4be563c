"""The form of a node's own document: what its fields say of levels and policies, and what sending them changes."""

import html
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.configs.catalogue.integrations import INTEGRATIONS
from controlplane.configs.models import ConfigDocument, ConfigVersion
from controlplane.configs.policy_services import policy_create
from controlplane.configs.services import config_patch, config_replace
from controlplane.reviews.models import ReviewRequest
from tests.factories import Tree
from tests.web.support import EVIL, Person
from web.config_form import Input, form_page_of
from web.config_specs import Spec, entry_specs, label_of, section_specs
from web.form_values import Unreadable, same_text, text_of, value_of

EDIT = "/app/config/payments/edit"
OWN = {"limits": {"max_turns": 20}, "agents": {"planner": {"model": "haiku", "x": 1}}, "routing": {"services": ["a"]}}


def document(tree: Tree) -> dict[str, Any]:
    found: dict[str, Any] = ConfigDocument.objects.get(pk=tree.payments.pk).document
    return found


def page_of(answer: Any) -> str:
    return html.unescape(answer.content.decode())


def opened(person: Person, **query: str) -> Any:
    return person.client.get(EDIT, query)


def field(answer: Any, pointer: str) -> Input:
    found: Input = next(one for one in answer.context["form"].inputs if one.pointer == pointer)
    return found


def send(person: Person, section: str, values: dict[str, Any], **fields: Any) -> Any:
    """Send a page as a browser does: every field as it was shown, but for ``values``, by pointer."""
    query = {"section": section, "entry": fields.pop("entry", ""), "kind": fields.pop("kind", "")}
    shown = person.client.get(EDIT, query).context["form"]
    sent = {f"v{one.pointer}": one.text for one in shown.inputs if not one.locked}
    sent |= {f"v{pointer}": value for pointer, value in values.items()}
    return person.client.post(EDIT, {"mode": "form", "version": 1, "step": "preview"} | query | sent | fields)


def save(person: Person, answer: Any, **fields: Any) -> Any:
    """Press the preview's button: what the preview page carries is sent as it stands."""
    draft = answer.context["draft"]
    sent = {"mode": draft.mode, "version": draft.version, "text": draft.text, "step": "save", "reason": "because"}
    return person.client.post(EDIT, sent | fields)


def pointers(answer: Any) -> list[str]:
    return [row.pointer for row in answer.context["rows"]]


@pytest.fixture
def configured(tree: Tree) -> Tree:
    above = {
        "limits": {"max_turns": 50, "wall_clock_s": 900},
        "agents": {
            "planner": {"enabled": True, "model": "sonnet", "prompt": {"system": "Plan."}},
            "k8s": {"name": "K8s"},
        },
        "integrations": {"prom": {"kind": "prometheus", "url": "https://prometheus.example.com"}},
        "skills": {"runbooks": True, "deploys": {"enabled": False}},
    }
    config_patch(actor=tree.system, node=tree.root, patch=above)
    config_patch(actor=tree.system, node=tree.payments, patch=OWN)
    return tree


# ---- what the page says ----


def test_form__inherited_own_and_unset__each_with_its_level(configured: Tree, admin: Person) -> None:
    answer = opened(admin, section="limits")
    inherited, own, unset = (field(answer, f"/limits/{name}") for name in ("wall_clock_s", "max_turns", "max_tokens"))
    assert (inherited.text, inherited.stands_in, inherited.origin and inherited.origin.node) == ("", "900", "demo")
    assert (own.text, own.inherited, own.origin and own.origin.node) == ("20", "50", "demo")
    assert (unset.text, unset.inherited, unset.origin) == ("", "", None)
    page = page_of(answer)
    assert 'placeholder="900" min="1" max="86400" step="1"' in page
    assert 'name="reset" value="/limits/max_turns"' in page
    assert 'name="reset" value="/limits/wall_clock_s"' not in page
    assert '<label for="f%2Flimits%2Fwall_clock_s">Wall clock (seconds)</label>' in page


def test_form__policies_above__locked_field_names_its_level_and_bounds_narrow(configured: Tree, admin: Person) -> None:
    for pointer, kind, value in (
        ("/limits/wall_clock_s", "locked", None),
        ("/limits/max_turns", "maximum", 40),
        ("/limits/max_turns", "requires_approval", None),
        ("/agents/*/model", "allowed_values", ["haiku", "sonnet"]),
    ):
        policy_create(actor=configured.system, node=configured.root, pointer=pointer, kind=kind, value=value)
    answer = opened(admin, section="limits")
    assert field(answer, "/limits/wall_clock_s").locked == "demo"
    assert "Locked by demo" in page_of(answer)
    assert (field(answer, "/limits/max_turns").spec.high, field(answer, "/limits/max_turns").approval) == (40, "demo")
    model = field(opened(admin, section="agents", entry="planner"), "/agents/planner/model")
    assert (model.kind, [value for value, _ in model.options]) == ("choice", ["haiku", "sonnet"])


def test_form__named_things__listed_with_their_level_and_one_can_be_added(configured: Tree, admin: Person) -> None:
    answer = opened(admin, section="agents")
    assert [(one.name, one.own) for one in answer.context["form"].entries] == [("k8s", False), ("planner", True)]
    added = opened(admin, section="integrations", entry="pd", kind="pagerduty")
    assert field(added, "/integrations/pd/kind").text == "pagerduty"
    assert field(added, "/integrations/pd/api_key").spec.secret
    assert field(added, "/integrations/pd/api_key").spec.required


@pytest.mark.parametrize("kind", INTEGRATIONS)
def test_form__integration_of_each_kind__asks_for_every_field_of_the_catalogue(
    configured: Tree, admin: Person, kind: str
) -> None:
    answer = opened(admin, section="integrations", entry="new", kind=kind)
    shown = {one.pointer for one in answer.context["form"].inputs}
    blocks = {block.adds for block in answer.context["form"].blocks}
    wanted = {f"/integrations/new/{'/'.join(one.path)}" for one in INTEGRATIONS[kind].fields}
    assert wanted <= shown | blocks
    assert answer.status_code == 200


def test_form__every_section_of_the_schema__has_a_page(configured: Tree, admin: Person) -> None:
    named = {"agents", "mcp_servers", "integrations", "remote_agents"}
    assert named < section_specs().keys()
    for name in section_specs():
        answer = opened(admin, section=name, entry="x" if name in named else "")
        assert (answer.status_code, answer.context["form"].blocks != ()) == (200, True)


def test_form__values_that_no_field_shows__are_listed_and_kept(configured: Tree, admin: Person) -> None:
    answer = opened(admin, section="agents", entry="planner")
    assert answer.context["form"].others == ("/agents/planner/x",)
    preview = send(admin, "agents", {"/agents/planner/max_turns": "7"}, entry="planner")
    assert pointers(preview) == ["/agents/planner/max_turns"]
    save(admin, preview)
    assert document(configured)["agents"] == {"planner": {"model": "haiku", "x": 1, "max_turns": 7}}


def test_form__place_in_the_address__opens_its_page_and_json_where_there_is_no_field(
    configured: Tree, admin: Person
) -> None:
    page = page_of(opened(admin, pointer="/limits/wall_clock_s"))
    assert page.index('id="one"') < page.index("v/limits/wall_clock_s") < page.index("v/limits/max_turns")
    assert opened(admin, pointer="/agents/planner/x").context["single"].value == "1"
    assert form_page_of("/agents") is None


def test_form__viewer__reads_the_document_and_no_form(configured: Tree, viewer: Person) -> None:
    page = page_of(viewer.client.get(EDIT))
    assert "v/limits" not in page
    assert '"max_turns": 20' in page
    assert viewer.client.post(EDIT, {"mode": "form", "section": "limits"}).status_code == 403


# ---- what sending it changes ----


def test_send__as_it_was_shown__changes_nothing(configured: Tree, admin: Person) -> None:
    for section, entry in (("limits", ""), ("agents", "planner"), ("routing", ""), ("skills", ""), ("general", "")):
        assert pointers(send(admin, section, {}, entry=entry)) == []


def test_send__set_cleared_and_reset__only_those_places_are_written(configured: Tree, admin: Person) -> None:
    preview = send(admin, "limits", {"/limits/wall_clock_s": "600", "/limits/max_turns": ""})
    assert sorted(pointers(preview)) == ["/limits/max_turns", "/limits/wall_clock_s"]
    assert document(configured) == OWN
    assert save(admin, preview)["Location"] == "/app/config/payments"
    assert document(configured) == {
        "limits": {"wall_clock_s": 600}, "agents": OWN["agents"], "routing": OWN["routing"],
    }  # fmt: skip
    row = ConfigVersion.objects.get(node=configured.payments, version=2)
    assert (row.by, row.reason) == ("ada", "because")


def test_send__reset_ticked__wins_over_what_was_typed(configured: Tree, admin: Person) -> None:
    preview = send(admin, "limits", {"/limits/max_turns": "99"}, reset="/limits/max_turns")
    assert [(row.pointer, row.after.value) for row in preview.context["rows"]] == [("/limits/max_turns", "50")]


@pytest.mark.parametrize("pointer", ["/limits", "/agents/planner", "/routing/services", ""])
def test_send__reset_of_what_the_page_does_not_hold__is_no_change(
    configured: Tree, admin: Person, pointer: str
) -> None:
    assert pointers(send(admin, "limits", {}, reset=pointer)) == []


def test_send__everything_of_one_entry_taken_out(configured: Tree, admin: Person) -> None:
    preview = send(admin, "agents", {}, entry="planner", reset="/agents/planner")
    assert sorted(pointers(preview)) == ["/agents/planner/model", "/agents/planner/x"]


@pytest.mark.parametrize(
    ("section", "entry", "pointer", "text", "value"),
    [
        ("agents", "planner", "/agents/planner/enabled", "false", False),
        ("agents", "planner", "/agents/planner/prompt/system", "One\r\n\r\nTwo", "One\n\nTwo"),
        ("agents", "new one", "/agents/new one/model", "sonnet", "sonnet"),
        ("agents", "a/b~c", "/agents/a~1b~0c/model", "sonnet", "sonnet"),
        ("limits", "", "/limits/max_cost_usd", "2.5", 2.5),
        ("routing", "", "/routing/services", "ledger\r\n checkout \r\n", ["ledger", "checkout"]),
        ("routing", "", "/routing/services", "[]", []),
        ("routing", "", "/routing/alerts", '[{"match": {"a": "b"}, "team": "payments"}]', None),
        ("skills", "", "/skills/runbooks", "false", False),
        ("skills", "", "/skills/deploys/enabled", "true", True),
        ("integrations", "prom", "/integrations/prom/headers", "X-Scope: a\nX-Other: b: c", None),
        ("runtime", "", "/runtime/kind", "builtin", "builtin"),
        ("team_context", "", "/team_context", "We own payments.", "We own payments."),
    ],
)
def test_send__each_kind_of_field__writes_its_value(
    configured: Tree, admin: Person, section: str, entry: str, pointer: str, text: str, value: Any
) -> None:
    assert save(admin, send(admin, section, {pointer: text}, entry=entry)).status_code == 302
    found: Any = document(configured)
    for key in pointer.split("/")[1:]:
        found = found[key.replace("~1", "/").replace("~0", "~")]
    wanted = {"/routing/alerts": [{"match": {"a": "b"}, "team": "payments"}]} | {
        "/integrations/prom/headers": {"X-Scope": "a", "X-Other": "b: c"}
    }
    assert found == wanted.get(pointer, value)
    assert document(configured)["limits"]["max_turns"] == 20


def test_send__a_name_added_to_switches__and_back_to_editing_keeps_it(configured: Tree, admin: Person) -> None:
    fields = {"n/agents/planner/tools": "logs", "s/agents/planner/tools": "false"}
    preview = send(admin, "agents", {}, entry="planner", **fields)
    assert pointers(preview) == ["/agents/planner/tools/logs"]
    draft = preview.context["draft"]
    again = admin.client.post(EDIT, {"mode": "form", "version": 1, "text": draft.text, "step": "edit"})
    assert field(again, "/agents/planner/tools/logs").text == "false"
    save(admin, preview)
    assert document(configured)["agents"]["planner"]["tools"] == {"logs": False}


def test_send__new_integration__kind_and_fields_in_one_change(configured: Tree, admin: Person) -> None:
    values = {"/integrations/pd/api_key": "${OPENSRE_CRED_PAGERDUTY}"}
    assert save(admin, send(admin, "integrations", values, entry="pd", kind="pagerduty")).status_code == 302
    assert document(configured)["integrations"] == {"pd": {"kind": "pagerduty", "api_key": "${OPENSRE_CRED_PAGERDUTY}"}}


@pytest.mark.parametrize(
    ("section", "pointer", "text", "words"),
    [
        ("limits", "/limits/max_tokens", "0", "greater than or equal to 1"),
        ("limits", "/limits/max_tokens", "many", "must be a whole number"),
        ("limits", "/limits/max_cost_usd", "x", "must be a number"),
        ("limits", "/limits/max_cost_usd", "1e999", "finite"),
        ("routing", "/routing/alerts", "[1,]", "is not JSON"),
        ("routing", "/routing/alerts", "[1]", "must be an object"),
        ("routing", "/routing/github_repos", "nonsense", "match pattern"),
    ],
)
def test_send__what_breaks_a_rule__error_at_its_field_and_the_typing_kept(
    configured: Tree, admin: Person, section: str, pointer: str, text: str, words: str
) -> None:
    answer = send(admin, section, {pointer: text, "/limits/wall_clock_s": "600"})
    assert answer.status_code == 422
    wrong = field(answer, pointer)
    assert words in " ".join(wrong.errors)
    assert wrong.text == text
    assert [one.pointer for one in answer.context["form"].faulty] == [pointer]
    assert f'href="#{wrong.id.replace("%", "%25")}"' in page_of(answer)
    assert 'aria-invalid="true"' in page_of(answer)
    if section == "limits":
        assert field(answer, "/limits/wall_clock_s").text == "600"
    assert document(configured) == OWN


def test_send__literal_secret__refused_at_its_field(configured: Tree, admin: Person) -> None:
    secret = "ghp_" + "a1B2" * 9
    answer = send(admin, "integrations", {"/integrations/gh/auth/token": secret}, entry="gh", kind="prometheus")
    assert answer.status_code == 422
    assert not any(secret in words for one in answer.context["form"].faulty for words in one.errors)
    assert ConfigVersion.objects.filter(node=configured.payments).count() == 1


def test_send__locked_field_forged__is_no_change(configured: Tree, admin: Person) -> None:
    policy_create(actor=configured.system, node=configured.root, pointer="/limits/wall_clock_s", kind="locked")
    assert pointers(send(admin, "limits", {"/limits/wall_clock_s": "5"})) == []
    text = json.dumps(["limits", "", "", {"/limits/wall_clock_s": "5"}, []])
    forged = admin.client.post(EDIT, {"mode": "form", "version": 1, "text": text, "step": "save"})
    assert (forged.status_code, document(configured)) == (403, OWN)
    assert "demo has locked this" in page_of(forged)


def test_send__a_place_the_form_does_not_have__refused_in_words(configured: Tree, admin: Person) -> None:
    text = json.dumps(["limits", "", "", {"/preferences/x": "5"}, []])
    answer = admin.client.post(EDIT, {"mode": "form", "version": 1, "text": text, "step": "save"})
    assert (answer.status_code, document(configured)) == (422, OWN)
    assert "The form has no such field any more" in page_of(answer)


def test_send__on_an_older_version__typing_kept_and_the_next_preview_is_on_the_new_one(
    configured: Tree, admin: Person
) -> None:
    preview = send(admin, "limits", {"/limits/wall_clock_s": "600"})
    config_patch(actor=configured.system, node=configured.payments, patch={"limits": {"max_turns": 30}})
    stale = save(admin, preview)
    assert stale.status_code == 412
    assert stale.context["problem"].current == 2
    assert (field(stale, "/limits/wall_clock_s").text, field(stale, "/limits/max_turns").text) == ("600", "30")
    assert [row.pointer for row in stale.context["problem"].meanwhile] == ["/limits/max_turns"]
    again = send(admin, "limits", {"/limits/wall_clock_s": "600"}, version=2)
    save(admin, again)
    assert document(configured)["limits"] == {"max_turns": 30, "wall_clock_s": 600}


def test_send__a_form_opened_before_another_saved__does_not_undo_it(configured: Tree, admin: Person) -> None:
    config_patch(actor=configured.system, node=configured.payments, patch={"limits": {"max_turns": 30}})
    sent = {"mode": "form", "version": 1, "section": "limits", "v/limits/max_turns": "20", "v/limits/wall_clock_s": "7"}
    stale = admin.client.post(EDIT, sent)
    assert stale.status_code == 412
    assert (field(stale, "/limits/max_turns").text, field(stale, "/limits/wall_clock_s").text) == ("30", "7")


def test_send__needs_approval__pressed_twice__one_review(configured: Tree, admin: Person) -> None:
    policy_create(actor=configured.system, node=configured.root, pointer="/limits", kind="requires_approval")
    preview = send(admin, "limits", {"/limits/max_turns": "10"})
    answers = [save(admin, preview, approval="1") for _ in range(2)]
    review = ReviewRequest.objects.get()
    assert {answer["Location"] for answer in answers} == {f"/app/reviews/{review.pk}"}
    assert document(configured) == OWN


def test_form__odd_stored_values__shown_without_being_changed(tree: Tree, admin: Person) -> None:
    odd: dict[str, Any] = {
        "limits": {"max_turns": None},
        "agents": {
            "a": {"name": " padded ", "description": "x\r\ny", "model": {"name": "m", "top_p": 0.5}, "tools": []}
        },
        "skills": {"enabled": ["x"], "disabled": []},
        "mcp_servers": {"m": {"args": ["-v", 1], "env": {"A": "line\nbreak", "B": 2}}},
        "team_context": {"sections": [{"title": EVIL}]},
        "routing": {"services": []},
    }
    config_replace(actor=tree.system, node=tree.payments, document=odd)
    for section, entry in (
        ("limits", ""), ("agents", "a"), ("skills", ""), ("mcp_servers", "m"), ("team_context", ""), ("routing", ""),
    ):  # fmt: skip
        assert "<script>alert" not in opened(admin, section=section, entry=entry).content.decode()
        assert pointers(send(admin, section, {}, entry=entry)) == []
    assert "Set to <code>null</code> here" in page_of(opened(admin, section="limits"))


# ---- texts and values ----

_LINE = st.text(min_size=1, max_size=20).filter(lambda text: text == text.strip() and len(text.splitlines()) == 1)


@given(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(-1e14, 1e14),
        _LINE, st.lists(_LINE), st.dictionaries(_LINE, _LINE), st.lists(st.integers(0, 9)),
    ),
    st.sampled_from(["text", "long", "whole", "number", "switch", "choice", "lines", "pairs", "json"]),
)  # fmt: skip
def test_values__shown_and_read_again__are_the_same(value: Any, wanted: str) -> None:
    kind, text = text_of(wanted, value)
    if kind == "whole" and isinstance(value, float):
        return  # shown, and refused by the rules of a whole number only when it is changed
    if text.strip():
        assert value_of(kind, text) == value
    else:
        assert value in (None, "")


@pytest.mark.django_db
@pytest.mark.parametrize("step", ["preview", "save", "edit", "rebase", "impact"])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 100_000, id="nested"),
        r'["limits","","",{"/limits/max_turns":"\ud800"},[]]',
        r'["agents","\ud800","",{"/agents/\ud800/model":"x"},[]]',
        r'["integrations","x","\ud800",{},[]]',
    ],
)
def test_carried_text__nested_without_end_or_half_characters__an_empty_form(
    tree: Tree, admin: Person, text: str, step: str
) -> None:
    config_patch(actor=tree.system, node=tree.payments, patch=OWN)
    before = document(tree)
    answer = admin.client.post(EDIT, {"mode": "form", "version": 1, "step": step, "text": text})
    assert answer.status_code < 500
    assert document(tree) == before


@given(st.text(), st.sampled_from(["whole", "number", "switch", "pairs", "json"]))
def test_values__any_text__is_read_or_refused_in_words(text: str, kind: str) -> None:
    refused = ""
    try:
        value_of(kind, text)
    except Unreadable as error:
        refused = f"{error.code}: {error.detail}"
    assert refused == "" or (refused.endswith(".") and not refused.startswith(":"))


def test_values__name_on_two_lines__refused_and_none_is_lost() -> None:
    with pytest.raises(Unreadable) as caught:
        value_of("pairs", "A: 1\nB: 2\n A : 3")
    assert caught.value.code == "duplicate_key"
    assert value_of("pairs", "A: 1\n\nB: 2") == {"A": "1", "B": "2"}


def test_values__browser_line_ends__are_no_change() -> None:
    assert same_text("a\r\nb", "a\nb")
    assert not same_text("a b", "a\nb")


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("wall_clock_s", "Wall clock (seconds)"),
        ("github_repos", "GitHub repositories"),
        ("mcp_servers", "MCP servers"),
        ("incidentio_team_ids", "incident.io team IDs"),
        ("s", "S"),
    ],
)
def test_labels__read_like_words(name: str, label: str) -> None:
    assert label_of(name) == label


def test_specs__bounds_choices_and_parts_come_from_the_schema() -> None:
    limits = {one.name: one for one in section_specs()["limits"].fields}
    assert (limits["wall_clock_s"].kind, limits["wall_clock_s"].low, limits["wall_clock_s"].high) == (
        "whole",
        1,
        86_400,
    )
    assert (limits["max_cost_usd"].kind, limits["max_cost_usd"].above) == ("number", True)
    agent: dict[str, Spec] = {one.name: one for one in entry_specs("agents", None)}
    assert (agent["prompt"].kind, agent["prompt"].plain, agent["model"].plain) == ("group", "long", "text")
    assert agent["tools"].kind == "switches"
