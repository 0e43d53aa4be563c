"""Audit rows are never changed or deleted: the database itself refuses, whoever asks.

A later migration that alters ``AuditEvent`` on SQLite makes the table anew, which drops its triggers: it must end by
running ``create`` again.
"""

from django.db import migrations

POSTGRESQL_CREATE = [
    """
    CREATE OR REPLACE FUNCTION audit_refuse_change() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'audit events are append-only'; END $$
    """,
    """
    CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit_auditevent FOR EACH ROW EXECUTE FUNCTION audit_refuse_change()
    """,
    """
    CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit_auditevent FOR EACH ROW EXECUTE FUNCTION audit_refuse_change()
    """,
]
POSTGRESQL_DROP = [
    "DROP TRIGGER IF EXISTS audit_no_update ON audit_auditevent",
    "DROP TRIGGER IF EXISTS audit_no_delete ON audit_auditevent",
    "DROP FUNCTION IF EXISTS audit_refuse_change()",
]
SQLITE_CREATE = [
    """
    CREATE TRIGGER IF NOT EXISTS audit_no_update BEFORE UPDATE ON audit_auditevent
    BEGIN SELECT RAISE(ABORT, 'audit events are append-only'); END
    """,
    """
    CREATE TRIGGER IF NOT EXISTS audit_no_delete BEFORE DELETE ON audit_auditevent
    BEGIN SELECT RAISE(ABORT, 'audit events are append-only'); END
    """,
]
SQLITE_DROP = ["DROP TRIGGER IF EXISTS audit_no_update", "DROP TRIGGER IF EXISTS audit_no_delete"]


def create(apps, schema_editor):
    _run(schema_editor, {"postgresql": POSTGRESQL_CREATE, "sqlite": SQLITE_CREATE})


def drop(apps, schema_editor):
    _run(schema_editor, {"postgresql": POSTGRESQL_DROP, "sqlite": SQLITE_DROP})


def _run(schema_editor, statements):
    for statement in statements.get(schema_editor.connection.vendor, []):
        schema_editor.execute(statement)


class Migration(migrations.Migration):
    dependencies = [("audit", "0001_initial")]
    operations = [migrations.RunPython(create, drop)]
