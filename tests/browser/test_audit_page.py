"""The page of the audit log in a browser."""

from typing import Any

import pytest
from playwright.sync_api import expect

from controlplane.core.actor import Role
from controlplane.orgs.services import node_update
from tests.browser.support import Site, fits
from tests.browser.test_accessibility import assert_accessible
from tests.factories import Tree, make_user
from tests.web.support import Person

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_audit__contrast_names_structure_and_width(site: Site, tree: Tree, scheme: Any, width: int) -> None:
    owner = Person.signed_in(make_user(tree.root, Role.OWNER, username=f"olga-{tree.organization.slug}"))
    node_update(actor=tree.system, node=tree.payments, name="A name of some length that has to go somewhere")
    page = site.visit(owner, color_scheme=scheme, viewport={"width": width, "height": 860})
    for path in ("", "?show=security", "?q=nobody-at-all", "?node=payments", "?show=security&code=x"):
        page.goto(f"/app/audit{path}")
        assert_accessible(page)
        assert fits(page), path
    page.goto("/app/audit")
    page.get_by_text("Before and after").first.click()
    expect(page.get_by_role("region", name="After event").first).to_be_visible()
    assert_accessible(page)
    assert fits(page)
