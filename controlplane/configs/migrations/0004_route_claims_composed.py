"""Claims in composed characters: of two that become the same, the one made first stays."""

from unicodedata import normalize

from django.db import migrations


def compose(apps, schema_editor):
    claims = apps.get_model("configs", "RouteClaim").objects
    for claim in claims.order_by("pk").iterator(chunk_size=500):
        key = normalize("NFC", claim.key)
        if key == claim.key:
            continue
        if claims.filter(organization_id=claim.organization_id, kind=claim.kind, key=key).exists():
            claim.delete()
        else:
            claim.key = key
            claim.save(update_fields=["key"])


class Migration(migrations.Migration):

    dependencies = [("configs", "0003_policies")]

    operations = [migrations.RunPython(compose, migrations.RunPython.noop)]
