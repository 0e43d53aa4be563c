"""Organizations and their tree of nodes."""

import re

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from typing_extensions import override

from controlplane.core.ids import new_id

MAX_DEPTH = 16
_SLUG = r"^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\Z"
slug_validator = RegexValidator(
    _SLUG,
    "1 to 63 lower-case letters, digits and inner hyphens",
    code="slug_format",
)


def is_slug(text: str) -> bool:
    """Return whether ``text`` could be a slug at all: what is asked before a query, so that no odd text reaches one."""
    return re.match(_SLUG, text) is not None


class NodeKind(models.TextChoices):
    ORG = "org", "organization"
    GROUP = "group", "group"
    TEAM = "team", "team"


class Organization(models.Model):
    """A tenant. Everything else belongs to exactly one."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    slug = models.CharField(max_length=63, unique=True, validators=[slug_validator])
    name = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["slug"]

    @override
    def __str__(self) -> str:
        return self.slug


class Node(models.Model):
    """A place in the tree: the organization itself, a group or a team."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(Organization, on_delete=models.PROTECT, related_name="nodes")
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="children")
    kind = models.CharField(max_length=8, choices=NodeKind)
    slug = models.CharField(max_length=63, validators=[slug_validator])
    name = models.CharField(max_length=200)
    archived_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.UniqueConstraint(fields=["organization", "slug"], name="node_slug_unique_in_organization"),
            models.UniqueConstraint(
                fields=["organization"], condition=Q(parent__isnull=True), name="node_one_root_per_organization"
            ),
            models.CheckConstraint(
                condition=Q(kind=NodeKind.ORG, parent__isnull=True) | (~Q(kind=NodeKind.ORG) & Q(parent__isnull=False)),
                name="node_only_root_is_org",
            ),
        ]

    @override
    def __str__(self) -> str:
        return self.slug


class NodeAncestor(models.Model):
    """The closure of the tree: one row for every node and each of its ancestors, itself included at depth 0.

    Kept by the node services alone, under the organization's lock.
    """

    ancestor = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="below")
    descendant = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="above")
    depth = models.PositiveSmallIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["descendant", "ancestor"], name="node_ancestor_once"),
            models.UniqueConstraint(fields=["descendant", "depth"], name="node_one_ancestor_per_depth"),
        ]
        indexes = [models.Index(fields=["ancestor", "depth"], name="node_ancestor_down")]

    @override
    def __str__(self) -> str:
        return f"{self.ancestor_id} > {self.descendant_id} ({self.depth})"
