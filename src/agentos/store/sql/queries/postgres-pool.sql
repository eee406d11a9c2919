-- name: add_salt
INSERT INTO agentos_pool_salt (id, value) VALUES (1, %(value)s) ON CONFLICT (id) DO NOTHING

-- name: salt
SELECT value FROM agentos_pool_salt

-- name: limit_wait
SELECT set_config('lock_timeout', %(milliseconds)s, true)

-- name: lock
WITH locked AS MATERIALIZED (
    SELECT slot, version, state, written, last_lease FROM agentos_pool WHERE name = %(provider)s FOR UPDATE
)
SELECT
    version, CASE WHEN version <> %(known)s THEN state END AS state, written,
    greatest(last_lease, slot * %(per_row)s::bigint) AS last_lease,
    extract(epoch FROM clock_timestamp())::float8 AS now
FROM locked

-- name: add_row
INSERT INTO agentos_pool (name) VALUES (%(provider)s) ON CONFLICT (name) DO NOTHING

-- name: look
SELECT version, state, written, extract(epoch FROM clock_timestamp())::float8 AS now
FROM agentos_pool WHERE name = %(provider)s AND version > 0 AND version <> %(known)s

-- name: states
SELECT name, state FROM agentos_pool WHERE version > 0

-- name: save
UPDATE agentos_pool
SET version = %(version)s, state = %(state)s, written = %(written)s, last_lease = %(last_lease)s
WHERE name = %(provider)s

-- name: tell
SELECT pg_notify('agentos_pool', %(token)s)

-- name: enter
INSERT INTO agentos_pool_run (token, run_id, place, pid, since, host, beat)
VALUES (%(token)s, %(run_id)s, %(place)s, %(pid)s, %(since)s, %(host)s, clock_timestamp())
ON CONFLICT (token) DO UPDATE SET beat = excluded.beat

-- name: beat
UPDATE agentos_pool_run SET beat = clock_timestamp() WHERE token = %(token)s

-- name: runs
SELECT
    token, run_id, place, pid, since, host,
    abs(extract(epoch FROM clock_timestamp() - beat)) < %(alive_seconds)s AS alive
FROM agentos_pool_run ORDER BY since, token

-- name: remove_run
DELETE FROM agentos_pool_run WHERE token = %(token)s

-- name: set_keys
INSERT INTO agentos_pool_keys (token, provider, keys) VALUES (%(token)s, %(provider)s, %(keys)s)
ON CONFLICT (token, provider) DO UPDATE SET keys = excluded.keys

-- name: users
SELECT
    token, keys,
    coalesce(abs(extract(epoch FROM clock_timestamp() - beat)) < %(alive_seconds)s, false) AS alive,
    extract(epoch FROM clock_timestamp() - pg_postmaster_start_time()) < %(alive_seconds)s AS just_started
FROM agentos_pool_keys LEFT JOIN agentos_pool_run USING (token)
WHERE provider = %(provider)s ORDER BY position

-- name: remove_keys
DELETE FROM agentos_pool_keys WHERE token = %(token)s
