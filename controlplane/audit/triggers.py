"""The triggers of the audit tables, as they are from 0003 on. Also what a test puts back after it has tampered.

An event is deleted only where a checkpoint of kind ``retention`` covers it; everything else is refused, whoever asks.
A later migration that alters one of these tables on SQLite makes the table anew, which drops its triggers: it must end
by running ``create`` again.
"""

from collections.abc import Mapping
from typing import Any

_COVERED = """EXISTS (
        SELECT 1 FROM audit_auditcheckpoint AS c WHERE c.organization_id = OLD.organization_id
        AND c.kind = 'retention' AND c.org_seq >= OLD.org_seq)"""

POSTGRESQL_CREATE = [
    """
    CREATE OR REPLACE FUNCTION audit_refuse_change() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'audit events are append-only'; END $$
    """,
    f"""
    CREATE OR REPLACE FUNCTION audit_refuse_removal() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN
        IF {_COVERED} THEN RETURN OLD; END IF;
        RAISE EXCEPTION 'audit events are append-only';
    END $$
    """,
    "DROP TRIGGER IF EXISTS audit_no_update ON audit_auditevent",
    "DROP TRIGGER IF EXISTS audit_no_delete ON audit_auditevent",
    "DROP TRIGGER IF EXISTS audit_checkpoint_fixed ON audit_auditcheckpoint",
    "DROP TRIGGER IF EXISTS security_sealed ON audit_securityevent",
    """
    CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit_auditevent FOR EACH ROW EXECUTE FUNCTION audit_refuse_change()
    """,
    """
    CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit_auditevent
    FOR EACH ROW EXECUTE FUNCTION audit_refuse_removal()
    """,
    """
    CREATE TRIGGER audit_checkpoint_fixed BEFORE UPDATE OR DELETE ON audit_auditcheckpoint
    FOR EACH ROW EXECUTE FUNCTION audit_refuse_change()
    """,
    """
    CREATE TRIGGER security_sealed BEFORE UPDATE ON audit_securityevent
    FOR EACH ROW WHEN (OLD.batch IS NOT NULL) EXECUTE FUNCTION audit_refuse_change()
    """,
]
POSTGRESQL_DROP = [
    "DROP TRIGGER IF EXISTS audit_no_update ON audit_auditevent",
    "DROP TRIGGER IF EXISTS audit_no_delete ON audit_auditevent",
    "DROP TRIGGER IF EXISTS audit_checkpoint_fixed ON audit_auditcheckpoint",
    "DROP TRIGGER IF EXISTS security_sealed ON audit_securityevent",
    "DROP FUNCTION IF EXISTS audit_refuse_removal()",
]
_ABORT = "BEGIN SELECT RAISE(ABORT, 'audit events are append-only'); END"
SQLITE_DROP = [
    "DROP TRIGGER IF EXISTS audit_no_update",
    "DROP TRIGGER IF EXISTS audit_no_delete",
    "DROP TRIGGER IF EXISTS audit_checkpoint_no_update",
    "DROP TRIGGER IF EXISTS audit_checkpoint_no_delete",
    "DROP TRIGGER IF EXISTS security_sealed",
]
SQLITE_CREATE = [
    *SQLITE_DROP,
    f"CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit_auditevent {_ABORT}",
    f"CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit_auditevent WHEN NOT {_COVERED} {_ABORT}",
    f"CREATE TRIGGER audit_checkpoint_no_update BEFORE UPDATE ON audit_auditcheckpoint {_ABORT}",
    f"CREATE TRIGGER audit_checkpoint_no_delete BEFORE DELETE ON audit_auditcheckpoint {_ABORT}",
    f"CREATE TRIGGER security_sealed BEFORE UPDATE ON audit_securityevent WHEN OLD.batch IS NOT NULL {_ABORT}",
]


def create(_apps: Any, schema_editor: Any) -> None:
    """Make the triggers, in the place of those there are. A migration's operation."""
    _run(schema_editor, {"postgresql": POSTGRESQL_CREATE, "sqlite": SQLITE_CREATE})


def drop(_apps: Any, schema_editor: Any) -> None:
    """Remove the triggers. A migration's operation, backwards."""
    _run(schema_editor, {"postgresql": POSTGRESQL_DROP, "sqlite": SQLITE_DROP})


def _run(schema_editor: Any, statements: Mapping[str, list[str]]) -> None:
    for statement in statements.get(schema_editor.connection.vendor, []):
        schema_editor.execute(statement)
