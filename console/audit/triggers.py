"""What keeps audit rows from being changed or deleted in the database itself, whoever asks it.

One change is let through: the account of a deleted user is forgotten (`user_id` becomes null); the name stays. A
migration that makes the table anew on SQLite loses its triggers there and must run `GUARD` again; a test looks.
"""

from __future__ import annotations

TABLE = "audit_auditentry"

_KEPT = (
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
)
_SAME = " AND ".join(f'NEW."{column}" IS OLD."{column}"' for column in _KEPT)

#: Vendor -> statements.
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
