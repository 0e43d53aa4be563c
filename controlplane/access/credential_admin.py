"""What operators give organizations: credentials by name. Given and taken back through the services, never edited."""

from typing import Any, Final

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest
from typing_extensions import override
from unfold.widgets import UnfoldAdminTextareaWidget

from controlplane.access.models import CredentialGrant
from controlplane.access.services import credential_entrust, credential_revoke
from controlplane.core.actor import Actor, Channel, system_actor
from controlplane.core.admin import ReadOnlyAdmin
from controlplane.core.credentials import credential_allowed
from controlplane.core.errors import AppError
from controlplane.orgs.models import Node, Organization

#: The form's field for the field that a refusal names.
_FIELDS: Final = {"name": "name", "hosts": "host_lines"}


class CredentialGrantForm(forms.ModelForm[CredentialGrant]):
    """What to give; the service's refusals appear at their fields."""

    host_lines = forms.CharField(
        label="Hosts",
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 4}),
        help_text="Where the control plane may send it, one a line: a host, *.domain or *. Without one it is sent "
        "nowhere; only runtimes that resolve credentials get it.",
    )

    class Meta:
        model = CredentialGrant
        fields = ("organization", "name", "inherited")

    #: Set by the admin: in whose name the form gives.
    operator_name = ""

    @override
    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        organization = cleaned["organization"]
        try:
            self.instance = credential_entrust(
                actor=operator_actor(self.operator_name, organization),
                organization=organization,
                name=cleaned["name"],
                hosts=cleaned["host_lines"].split(),
                inherited=cleaned["inherited"],
            )
        except AppError as error:
            self._refused(error)
        return cleaned

    def _refused(self, error: AppError) -> None:
        for one in error.errors or ():
            self.add_error(_FIELDS.get(one.pointer.split("/")[1]), one.detail)
        if not error.errors:
            self.add_error(None, error.detail)


@admin.register(CredentialGrant)
class CredentialGrantAdmin(ReadOnlyAdmin):
    """Every grant is shown; an operator gives an organization a name, and takes any grant of the operators back."""

    form = CredentialGrantForm
    list_display = (
        "name",
        "organization",
        "node",
        "hosts",
        "inherited",
        "granted_by_label",
        "created_at",
        "revoked_at",
    )
    list_filter = ("organization",)
    list_select_related = ("organization", "node")
    search_fields = ("name", "node__slug")
    actions = ("take_back",)

    @override
    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_active and request.user.is_superuser)

    @override
    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return ("organization", "name", "host_lines", "inherited")
        return tuple(field.name for field in CredentialGrant._meta.fields if field.name != "id")  # noqa: SLF001 (Django's documented API)

    @override
    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        form.operator_name = request.user.get_username()
        return form

    @override
    def save_model(self, request: HttpRequest, obj: CredentialGrant, form: Any, change: bool) -> None:
        """The form has given it already, through the service; here a name that resolves nowhere is pointed out."""
        if not credential_allowed(obj.name):
            messages.warning(request, f"{obj.name} is not allowed by CREDENTIAL_ENV_ALLOW, so it resolves nowhere yet.")

    @admin.action(description="Take back, with every grant that counts only because of it")
    def take_back(self, request: HttpRequest, queryset: QuerySet[CredentialGrant]) -> None:
        if not request.user.is_superuser:
            raise PermissionDenied
        ended = 0
        for grant in queryset.select_related("organization", "node"):
            actor = operator_actor(request.user.get_username(), grant.organization)
            ended += len(credential_revoke(actor=actor, grant=grant))
        messages.success(request, f"{ended} grants ended.")


def operator_actor(username: str, organization: Organization) -> Actor:
    """Return the installation acting on an organization, in the name of an operator."""
    root = Node.objects.get(organization=organization, parent__isnull=True)
    label = f"operator {username}"
    return system_actor(name=label, organization_id=organization.pk, root_id=root.pk, channel=Channel.WEB)
