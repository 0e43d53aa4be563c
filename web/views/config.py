"""Effective configuration with provenance, policies and credential states."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from controlplane.configs.credentials import credential_report
from controlplane.configs.policies import policies_above, required_missing, shown_pointer
from controlplane.configs.selectors import config_document, config_effective_for
from controlplane.core.actor import Actor
from web.config_page import Place, config_sections, config_tree, pretty_json
from web.session import signed_in


@require_safe
@signed_in
def config(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """Go to the first team whose configuration the actor may read."""
    tree = config_tree(actor)
    if not tree:
        return render(request, "web/config.html", {"tree": []})
    first = next((node for node in tree if node.kind == "team" and not node.archived), tree[0])
    return redirect("web:config_node", first.slug)


@require_safe
@signed_in
def config_node(request: HttpRequest, actor: Actor, slug: str) -> HttpResponseBase:
    """The configuration of one node: every effective leaf with who set it, and the node's own overrides."""
    place = Place(actor, slug)
    effective = config_effective_for(actor=actor, node_id=place.node.pk)
    stored = config_document(actor=actor, node=place.node)
    policies = policies_above(place.node.pk)
    sections = config_sections(effective, policies, credential_report(effective))
    context = place.context("effective") | {
        "effective": effective,
        "stored": stored,
        "own_document": pretty_json(stored.document) if stored.document else "",
        "sections": sections,
        "leaf_count": sum(len(leaves) for _, leaves in sections),
        "own_count": sum(leaf.own for _, leaves in sections for leaf in leaves),
        "missing": [
            (shown_pointer(path), policy.node) for policy, path in required_missing(policies, effective.document)
        ],
    }
    return render(request, "web/config.html", context)
