"""Signed checkpoints, sealed heads, kept verifications, and the security stream."""

import controlplane.core.ids
from controlplane.audit import triggers
from controlplane.audit.chain import current_key, head_seal
from django.db import migrations, models


def seal_heads(apps, schema_editor):
    """Heads had no seal before: they get theirs here, from the keys of this installation."""
    heads = apps.get_model("audit", "AuditHead").objects
    for head in heads.all():
        head.key_version = current_key()
        head.seal = head_seal(head)
        head.save(update_fields=["key_version", "seal"])


class Migration(migrations.Migration):

    dependencies = [
        ('audit', '0002_append_only'),
    ]

    operations = [
        migrations.CreateModel(
            name='AuditCheckpoint',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('organization_id', models.UUIDField()),
                ('number', models.PositiveIntegerField(help_text='Gapless per organization, from 1.')),
                ('kind', models.CharField(choices=[('periodic', 'Periodic'), ('command', 'Command'), ('retention', 'Retention')], max_length=16)),
                ('org_seq', models.PositiveBigIntegerField()),
                ('mac', models.CharField(help_text='Of the event at org_seq.', max_length=64)),
                ('count', models.PositiveBigIntegerField(help_text='Events in the database up to there.')),
                ('at', models.DateTimeField()),
                ('previous', models.CharField(help_text='Signature of the checkpoint before.', max_length=64)),
                ('signature', models.CharField(max_length=64)),
                ('key_version', models.PositiveSmallIntegerField()),
            ],
            options={
                'ordering': ['organization_id', 'number'],
            },
        ),
        migrations.CreateModel(
            name='AuditVerification',
            fields=[
                ('organization_id', models.UUIDField(primary_key=True, serialize=False)),
                ('at', models.DateTimeField()),
                ('full_at', models.DateTimeField(help_text='When the whole chain was verified last.', null=True)),
                ('verified_seq', models.PositiveBigIntegerField(default=0)),
                ('verified_mac', models.CharField(blank=True, max_length=64)),
                ('again_seq', models.PositiveBigIntegerField(default=0, help_text='How far old events have been verified again.')),
                ('intact', models.BooleanField(default=True)),
                ('kind', models.CharField(blank=True, max_length=24)),
                ('broken_seq', models.PositiveBigIntegerField(null=True)),
                ('broken_id', models.CharField(blank=True, max_length=64)),
                ('broken_action', models.CharField(blank=True, max_length=64)),
                ('problem', models.CharField(blank=True, max_length=300)),
                ('key_version', models.PositiveSmallIntegerField(default=0)),
                ('seal', models.CharField(blank=True, max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name='SecurityEvent',
            fields=[
                ('id', models.UUIDField(default=controlplane.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('organization_id', models.UUIDField()),
                ('kind', models.CharField(choices=[('denied', 'Not allowed'), ('not_visible', 'Not visible'), ('not_authenticated', 'Credential refused'), ('limited', 'Too often'), ('sign_in', 'Signed in'), ('sign_in_failed', 'Sign-in refused'), ('secret', 'Secrets given out'), ('impersonation', 'Viewed as a team'), ('overflow', 'More than is kept')], max_length=24)),
                ('code', models.CharField(blank=True, help_text="The error's code, or how somebody signed in.", max_length=64)),
                ('actor', models.CharField(max_length=128)),
                ('actor_label', models.CharField(max_length=200)),
                ('credential_id', models.CharField(blank=True, max_length=64)),
                ('impersonator', models.CharField(blank=True, max_length=128)),
                ('channel', models.CharField(max_length=16)),
                ('address', models.CharField(blank=True, max_length=64)),
                ('action', models.CharField(help_text='What was tried: the name of a route or of an action.', max_length=128)),
                ('object_kind', models.CharField(blank=True, max_length=32)),
                ('object_id', models.CharField(blank=True, max_length=200)),
                ('node_id', models.UUIDField(blank=True, null=True)),
                ('first_at', models.DateTimeField()),
                ('last_at', models.DateTimeField()),
                ('count', models.PositiveBigIntegerField(default=1)),
                ('batch', models.PositiveBigIntegerField(blank=True, null=True)),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        migrations.AddField(
            model_name='audithead',
            name='checkpoint_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='audithead',
            name='checkpoint_seq',
            field=models.PositiveBigIntegerField(default=0, help_text='Where the latest checkpoint stands.'),
        ),
        migrations.AddField(
            model_name='audithead',
            name='checkpoints',
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='audithead',
            name='key_version',
            field=models.PositiveSmallIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='audithead',
            name='seal',
            field=models.CharField(blank=True, max_length=64),
        ),
        migrations.AddIndex(
            model_name='auditevent',
            index=models.Index(fields=['organization_id', 'actor', 'org_seq'], name='audit_actor'),
        ),
        migrations.AddIndex(
            model_name='auditevent',
            index=models.Index(fields=['organization_id', 'action', 'org_seq'], name='audit_action'),
        ),
        migrations.AddIndex(
            model_name='auditevent',
            index=models.Index(fields=['node_id', 'org_seq'], name='audit_node'),
        ),
        migrations.AddIndex(
            model_name='auditcheckpoint',
            index=models.Index(fields=['organization_id', 'kind', 'org_seq'], name='audit_checkpoint_kind'),
        ),
        migrations.AddConstraint(
            model_name='auditcheckpoint',
            constraint=models.UniqueConstraint(fields=('organization_id', 'number'), name='audit_checkpoint_number'),
        ),
        migrations.AddIndex(
            model_name='auditverification',
            index=models.Index(fields=['intact'], name='audit_verification_intact'),
        ),
        migrations.AddIndex(
            model_name='securityevent',
            index=models.Index(fields=['organization_id', '-id'], name='security_newest'),
        ),
        migrations.AddIndex(
            model_name='securityevent',
            index=models.Index(fields=['organization_id', 'batch'], name='security_batch'),
        ),
        migrations.AddIndex(
            model_name='securityevent',
            index=models.Index(fields=['first_at'], name='security_first_at'),
        ),
        migrations.RunPython(seal_heads, migrations.RunPython.noop, elidable=True),
        migrations.RunPython(triggers.create, triggers.drop),
    ]
