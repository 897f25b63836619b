"""Database triggers that prevent changing or deleting audit entries, also by other programs.

One change is allowed: when a user is deleted, `user_id` becomes null; the name stays. A migration that recreates the
table on SQLite drops the triggers there and must run `GUARD` again; a test checks this.
"""

from __future__ import annotations

TABLE = "audit_auditentry"

_IMMUTABLE = (
    "id",
    "at",
    "user_name",
    "source_address",
    "broker",
    "virtualhost",
    "object",
    "operation",
    "reason",
    "before",
    "after",
    "outcome",
    "detail",
    "request_id",
)
_SAME = " AND ".join(f'NEW."{column}" IS OLD."{column}"' for column in _IMMUTABLE)

#: SQL statements by database vendor.
GUARD = {
    "sqlite": [
        f"CREATE TRIGGER audit_keeps_rows BEFORE DELETE ON {TABLE}"
        " BEGIN SELECT RAISE(ABORT, 'audit rows are never deleted'); END",
        f"CREATE TRIGGER audit_keeps_values BEFORE UPDATE ON {TABLE} WHEN NOT (NEW.user_id IS NULL AND {_SAME})"
        " BEGIN SELECT RAISE(ABORT, 'audit rows are never changed'); END",
    ],
    "postgresql": [
        """
        CREATE FUNCTION audit_keep() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF TG_OP = 'UPDATE' THEN
                OLD.user_id := NULL;
                IF NEW IS NOT DISTINCT FROM OLD THEN
                    RETURN NEW;
                END IF;
                RAISE EXCEPTION 'audit rows are never changed';
            END IF;
            RAISE EXCEPTION 'audit rows are never deleted';
        END $$
        """,
        f"CREATE TRIGGER audit_keeps_rows BEFORE UPDATE OR DELETE ON {TABLE}"
        " FOR EACH ROW EXECUTE FUNCTION audit_keep()",
        f"CREATE TRIGGER audit_keeps_table BEFORE TRUNCATE ON {TABLE} FOR EACH STATEMENT EXECUTE FUNCTION audit_keep()",
    ],
}
UNGUARD = {
    "sqlite": ["DROP TRIGGER audit_keeps_rows", "DROP TRIGGER audit_keeps_values"],
    "postgresql": [
        f"DROP TRIGGER audit_keeps_rows ON {TABLE}",
        f"DROP TRIGGER audit_keeps_table ON {TABLE}",
        "DROP FUNCTION audit_keep()",
    ],
}
