"""The pages of alerts in a browser: both colour schemes, a desk and a phone."""

import os
import re
from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import expect

from controlplane.alerts.alertmanager import delivery_read
from controlplane.alerts.models import AlertGroup
from controlplane.alerts.services import alert_ingest
from controlplane.alerts.vendors import VENDORS
from controlplane.configs.services import config_patch
from controlplane.core import clock
from tests.alerts import samples
from tests.alerts.support import alert, resolved, webhook
from tests.browser.support import Site, fits
from tests.browser.test_accessibility import assert_accessible
from tests.factories import Tree, actor_for_token, make_team_token
from tests.web.support import Person

pytestmark = pytest.mark.browser


def deliver(tree: Tree) -> AlertGroup:
    """Deliver alerts of every fate; return the group with the most."""
    actor = actor_for_token(make_team_token(tree.payments, ["alerts:ingest"]))
    alert_ingest(actor=actor, delivery=delivery_read(webhook(alert("a"), alert("b"))))
    group = alert_ingest(actor=actor, delivery=delivery_read(webhook(*map(alert, "abc")))).group
    alert_ingest(actor=actor, delivery=delivery_read(resolved() | {"groupKey": "over"}))
    config_patch(actor=tree.system, node=tree.payments, patch={"alerts": {"debounce_s": 3_600, "runs_per_hour": 2}})
    for vendor, body in (("datadog", samples.datadog()), ("pagerduty", samples.pagerduty())):
        for delivery in VENDORS[vendor].read(body, None).deliveries:
            alert_ingest(actor=actor, delivery=delivery)
    for number in (1, 2):
        body = samples.azure(alertRule=f"A rule with quite a long name, number {number}", severity="Sev0")
        for delivery in VENDORS["azure"].read(body, None).deliveries:
            alert_ingest(actor=actor, delivery=delivery)
    assert AlertGroup.objects.filter(organization=tree.organization, held_until__gt=clock.now() + timedelta(minutes=1))
    return group


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_alerts__every_fate__readable_and_within_the_width(
    site: Site, tree: Tree, rita: Person, scheme: Any, width: int
) -> None:
    page = site.visit(rita, color_scheme=scheme, viewport={"width": width, "height": 860})
    page.goto("/app/alerts")
    expect(page.get_by_text("No alerts yet")).to_be_visible()
    assert_accessible(page)
    assert fits(page)
    picture(page, f"empty-{width}-{scheme}")
    group = deliver(tree)
    page.goto("/app/alerts")
    assert page.locator("[data-fate]").count() >= 5
    assert_accessible(page)
    assert fits(page)
    picture(page, f"list-{width}-{scheme}")
    page.goto(f"/app/alerts/{group.pk}")
    page.evaluate("document.querySelector('.alert-more').open = true")
    assert_accessible(page)
    assert fits(page)
    picture(page, f"group-{width}-{scheme}")


def test_alerts__filter__applies_at_once_and_the_row_leads_to_the_run(site: Site, tree: Tree, rita: Person) -> None:
    deliver(tree)
    page = site.visit(rita)
    page.goto("/app/alerts")
    page.get_by_label("Fate").select_option("joined")
    expect(page.locator("#alert-list li")).to_have_count(1)
    page.get_by_role("link", name="HighErrorRate").click()
    page.get_by_role("link", name="The run it joined").click()
    expect(page).to_have_url(re.compile(r"/app/threads/"))


def picture(page: Any, name: str) -> None:
    if folder := os.environ.get("OPENSRE_TEST_PICTURES"):
        page.screenshot(path=f"{folder}/alerts-{name}.png", full_page=True)
