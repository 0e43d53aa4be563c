"""The index of who owns what, and what stored documents already claim."""

import django.db.models.deletion
from django.db import migrations, models

_KINDS = {
    "incidentio_team_id": False, "pagerduty_service_id": False, "slack_channel_id": False, "slack_workspace_id": False,
    "teams_channel_id": False, "google_chat_space_id": False, "github_repo": True, "vercel_project_id": False,
    "coralogix_team_name": True, "incidentio_alert_source_id": False, "service": True,
}


def claim(apps, schema_editor):
    """Claim what stored documents name. Of two nodes that name the same the one written first keeps it."""
    documents = apps.get_model("configs", "ConfigDocument").objects.filter(version__gt=0)
    claims = apps.get_model("configs", "RouteClaim").objects
    rows = documents.order_by("updated_at").values_list("node_id", "node__organization_id", "document")
    for node_id, organization_id, document in rows.iterator(chunk_size=200):
        section = document.get("routing")
        for kind, folded in _KINDS.items():
            keys = section.get(f"{kind}s") if isinstance(section, dict) else None
            for key in keys if isinstance(keys, list) else ():
                if isinstance(key, str) and key.strip() and len(key) <= 200:
                    key = key.strip().casefold() if folded else key.strip()
                    claims.get_or_create(
                        organization_id=organization_id, kind=kind, key=key, defaults={"node_id": node_id}
                    )


class Migration(migrations.Migration):

    dependencies = [
        ('orgs', '0001_initial'),
        ('configs', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='RouteClaim',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(help_text='service, teams_channel_id, github_repo, …', max_length=32)),
                ('key', models.CharField(help_text='In lower case where the platform ignores the case.', max_length=600)),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='route_claims', to='orgs.node')),
                ('organization', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='orgs.organization')),
            ],
            options={
                'verbose_name': 'route',
                'ordering': ['organization', 'kind', 'key'],
                'constraints': [models.UniqueConstraint(fields=('organization', 'kind', 'key'), name='route_claim_unique')],
            },
        ),
        migrations.RunPython(claim, migrations.RunPython.noop),
    ]
