-- The database itself: what was applied to it, who may upgrade it, what a role may do in it.

-- name: try_lock
SELECT pg_try_advisory_lock(:key) AS locked;

-- name: unlock
SELECT pg_advisory_unlock(:key);

-- name: exists
SELECT to_regclass(:table) IS NOT NULL AS there;

-- name: applied
SELECT part, version FROM agentos_schema;

-- name: record
INSERT INTO agentos_schema (part, version)
VALUES (:part, :version);

-- name: facts
SELECT
    current_setting('server_version') AS version,
    current_setting('server_version_num')::integer AS number,
    current_setting('server_encoding') AS encoding,
    current_user::text AS role,
    (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS superuser,
    extract(epoch FROM clock_timestamp())::double precision AS clock;

-- name: missing_rights
-- The tables and sequences of agentos, procrastinate and the checkpoints that this role cannot fully use. Two of the
-- tables are only read. The sequence of an identity column needs no right of its own.
WITH ours AS (
    SELECT one.oid, one.relname::text AS name, one.relkind
    FROM pg_class AS one
    WHERE one.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('agentos_schema'))
        AND one.relname ~ '^(agentos|procrastinate|checkpoint)'
        AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = one.oid AND deptype = 'i')
)
SELECT name FROM ours
WHERE CASE
    WHEN relkind IN ('r', 'p') AND name IN ('agentos_schema', 'checkpoint_migrations')
        THEN NOT has_table_privilege(oid, 'SELECT')
    WHEN relkind IN ('r', 'p') THEN NOT (
        has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')
        AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE')
    )
    WHEN relkind = 'S' THEN NOT has_sequence_privilege(oid, 'USAGE')
    ELSE false
END
UNION ALL
SELECT 'agentos_runs, which workers read' WHERE NOT has_table_privilege('agentos_runs', 'SELECT')
UNION ALL
SELECT 'agentos_attempts, which workers update' WHERE NOT (
    has_table_privilege('agentos_attempts', 'SELECT') AND has_table_privilege('agentos_attempts', 'DELETE')
    AND has_column_privilege('agentos_attempts', 'state', 'UPDATE')
    AND has_column_privilege('agentos_attempts', 'machine', 'UPDATE')
)
ORDER BY name;
