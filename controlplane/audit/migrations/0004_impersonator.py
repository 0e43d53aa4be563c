"""Who viewed as a team is in the chain too; events from before keep their MACs, which an empty column leaves alone."""

from controlplane.audit import triggers
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('audit', '0003_checkpoints_and_security'),
    ]

    operations = [
        # SQLite makes the table anew, in both directions, without its triggers.
        migrations.RunPython(migrations.RunPython.noop, triggers.create),
        migrations.AddField(
            model_name='auditevent',
            name='impersonator',
            field=models.CharField(blank=True, default='', help_text='Who viewed as a team, while it acted.', max_length=128),
        ),
        migrations.RunPython(triggers.create, migrations.RunPython.noop),
    ]
