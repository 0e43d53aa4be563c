"""The bodies of the configuration endpoints: those read strictly, and the answers as the OpenAPI schema shows them."""

from typing import Any

from rest_framework import serializers
from typing_extensions import override

from controlplane.configs.selectors import MAX_VERSION
from controlplane.configs.services import MAX_POINTERS, MAX_REASON
from controlplane.core.api import StrictSerializer, TextField


class WholeNumberField(serializers.IntegerField):
    """An integer and nothing that could be read as one: DRF's own field takes texts, fractions and booleans too."""

    @override
    def to_internal_value(self, data: Any) -> int:
        if not isinstance(data, int) or isinstance(data, bool):
            self.fail("invalid")
        return int(super().to_internal_value(data))


class UnsetBody(StrictSerializer):
    pointers = serializers.ListField(
        child=TextField(allow_blank=True, trim_whitespace=False), min_length=1, max_length=MAX_POINTERS
    )
    reason = TextField(required=False, allow_blank=True, default="", max_length=MAX_REASON)


class RollbackBody(StrictSerializer):
    version = WholeNumberField(min_value=0, max_value=MAX_VERSION)
    reason = TextField(required=False, allow_blank=True, default="", max_length=MAX_REASON)


class OperationSchema(serializers.Serializer[Any]):
    pointer = serializers.CharField()
    before = serializers.JSONField(required=False, help_text="Left out where there was nothing.")
    after = serializers.JSONField(required=False, help_text="Left out where nothing is left.")


class WarningSchema(serializers.Serializer[Any]):
    pointer = serializers.CharField()
    code = serializers.CharField()
    detail = serializers.CharField()


class ImpactSchema(serializers.Serializer[Any]):
    count = serializers.IntegerField()
    slugs = serializers.ListField(child=serializers.CharField(), help_text="At most 50.")


class DocumentAnswer(serializers.Serializer[Any]):
    document = serializers.DictField(child=serializers.JSONField(allow_null=True))
    version = serializers.IntegerField()
    leaf_versions = serializers.DictField(child=serializers.IntegerField())
    updated_at = serializers.DateTimeField(allow_null=True)
    updated_by = serializers.CharField(allow_null=True)


class WriteAnswer(DocumentAnswer):
    changed = serializers.BooleanField()
    diff = OperationSchema(many=True)
    warnings = WarningSchema(many=True)
    dry_run = serializers.BooleanField()
    affected = ImpactSchema(required=False, help_text="In a dry run.")


class QueuedReview(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    url = serializers.CharField()
    state = serializers.CharField()
    expires_at = serializers.DateTimeField()


class QueuedAnswer(serializers.Serializer[Any]):
    """The answer 202: the change waits for approval, nothing was written."""

    review = QueuedReview()
    version = serializers.IntegerField(help_text="Of the document, unchanged.")
    changed = serializers.BooleanField()
    diff = OperationSchema(many=True)
    warnings = WarningSchema(many=True)
    dry_run = serializers.BooleanField()


class ShadowedSchema(serializers.Serializer[Any]):
    node = serializers.CharField()
    level = serializers.ChoiceField(["org", "group", "team"])
    version = serializers.IntegerField()
    by = serializers.CharField()
    at = serializers.DateTimeField()
    value = serializers.JSONField(allow_null=True)


class SourceSchema(serializers.Serializer[Any]):
    node = serializers.CharField(help_text="Slug of the node that set the value.")
    level = serializers.ChoiceField(["org", "group", "team"])
    version = serializers.IntegerField(help_text="Version of that node's document which set it.")
    by = serializers.CharField()
    at = serializers.DateTimeField()
    shadowed = ShadowedSchema(many=True, required=False, help_text="Hidden values, nearest first.")


class CredentialSchema(serializers.Serializer[Any]):
    pointer = serializers.CharField()
    name = serializers.CharField(allow_blank=True, help_text="Blank where the reference is malformed.")
    state = serializers.ChoiceField(["set", "unset", "not_granted", "not_allowed", "malformed"])


class EffectiveAnswer(serializers.Serializer[Any]):
    effective = serializers.JSONField(allow_null=True, help_text="An object, or the value at ?pointer=.")
    version = serializers.IntegerField(help_text="Of the node's own document.")
    credentials = CredentialSchema(many=True, required=False, help_text="Left out where nothing refers to any.")
    sources = serializers.DictField(child=SourceSchema(), required=False)


class VersionSummary(serializers.Serializer[Any]):
    version = serializers.IntegerField()
    at = serializers.DateTimeField()
    by = serializers.CharField()
    approved_by = serializers.CharField(allow_null=True, help_text="Who approved it, where a review was needed.")
    review = serializers.UUIDField(allow_null=True)
    reason = serializers.CharField(allow_blank=True)


class HistoryPage(serializers.Serializer[Any]):
    results = VersionSummary(many=True)
    next = serializers.CharField(allow_null=True)


class VersionAnswer(VersionSummary):
    document = serializers.DictField(child=serializers.JSONField(allow_null=True))
    diff = OperationSchema(many=True)


class OwnEffectiveAnswer(serializers.Serializer[Any]):
    node_id = serializers.CharField()
    effective_config = serializers.DictField(child=serializers.JSONField(allow_null=True))
    computed_at = serializers.DateTimeField()
    hierarchy = serializers.ListField(child=serializers.CharField(), help_text="Slugs, root first.")
    credentials = CredentialSchema(many=True, required=False, help_text="With ?resolve=true alone.")


class OwnRawAnswer(serializers.Serializer[Any]):
    lineage = serializers.ListField(child=serializers.CharField(), help_text="Slugs, root first.")
    configs = serializers.DictField(child=serializers.DictField(child=serializers.JSONField(allow_null=True)))
