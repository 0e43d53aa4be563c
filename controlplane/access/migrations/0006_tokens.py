import django.db.models.deletion
from django.db import migrations, models

import controlplane.core.ids

KINDS = [("team", "Team"), ("admin", "Admin"), ("user", "User"), ("view", "view as team")]


class Migration(migrations.Migration):
    dependencies = [
        ("access", "0005_rights_stamps"),
        ("orgs", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="accesstoken",
            name="allowed_addresses",
            field=models.JSONField(
                blank=True, default=list, help_text="Networks (CIDR) it may be used from. Empty: from anywhere."
            ),
        ),
        migrations.AddField(
            model_name="accesstoken",
            name="last_used_address",
            field=models.CharField(blank=True, default="", max_length=64),
            preserve_default=False,
        ),
        migrations.AlterField(
            model_name="accesstoken", name="kind", field=models.CharField(choices=KINDS, max_length=8)
        ),
        migrations.RemoveConstraint(model_name="accesstoken", name="token_personal_has_user"),
        migrations.AddConstraint(
            model_name="accesstoken",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("kind__in", ["user", "view"]), ("user__isnull", False)),
                    models.Q(models.Q(("kind__in", ["user", "view"]), _negated=True), ("user__isnull", True)),
                    _connector="OR",
                ),
                name="token_personal_has_user",
            ),
        ),
        migrations.AddConstraint(
            model_name="accesstoken",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("kind", "view"), _negated=True), ("expires_at__isnull", False), _connector="OR"
                ),
                name="token_view_expires",
            ),
        ),
        migrations.AddIndex(
            model_name="accesstoken", index=models.Index(fields=["created_by"], name="token_created_by")
        ),
        migrations.CreateModel(
            name="TokenPolicy",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=controlplane.core.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("kind", models.CharField(choices=KINDS, max_length=8)),
                ("max_days", models.PositiveIntegerField(blank=True, null=True)),
                ("default_days", models.PositiveIntegerField(blank=True, null=True)),
                ("endless_allowed", models.BooleanField(default=True)),
                ("revoke_unused_days", models.PositiveIntegerField(blank=True, null=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="token_policies",
                        to="orgs.organization",
                    ),
                ),
            ],
            options={"ordering": ["organization_id", "kind"]},
        ),
        migrations.AddConstraint(
            model_name="tokenpolicy",
            constraint=models.UniqueConstraint(fields=("organization", "kind"), name="token_policy_once"),
        ),
        migrations.AddConstraint(
            model_name="tokenpolicy",
            constraint=models.CheckConstraint(
                condition=models.Q(("max_days__isnull", True), ("endless_allowed", False), _connector="OR"),
                name="token_policy_maximum_is_no_endless",
            ),
        ),
    ]
