"""That rights were taken from somebody, for processes that hold something open for them."""

from django.db import models
from typing_extensions import override

from controlplane.core.ids import new_id
from controlplane.orgs.models import Organization


class RightsStamp(models.Model):
    """A value that is another one whenever rights are taken from anybody of the organization."""

    organization = models.OneToOneField(
        Organization, primary_key=True, on_delete=models.CASCADE, related_name="rights_stamp"
    )
    stamp = models.UUIDField(default=new_id)

    @override
    def __str__(self) -> str:
        return f"{self.organization_id}: {self.stamp}"
