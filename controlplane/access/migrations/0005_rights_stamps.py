import controlplane.core.ids
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("access", "0004_local_sign_in_and_limits"),
        ("orgs", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="RightsStamp",
            fields=[
                (
                    "organization",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="rights_stamp",
                        serialize=False,
                        to="orgs.organization",
                    ),
                ),
                ("stamp", models.UUIDField(default=controlplane.core.ids.new_id)),
            ],
        ),
    ]
