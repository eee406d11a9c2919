-- name: add_salt
INSERT OR IGNORE INTO salt (id, value) VALUES (1, :value)

-- name: salt
SELECT value FROM salt

-- name: state
SELECT version, state, boot, written FROM provider WHERE name = :provider AND version <> :known

-- name: states
SELECT name, state FROM provider

-- name: all_states
SELECT name, version, state, boot, last_lease FROM provider

-- name: last_lease
SELECT coalesce(max(last_lease), 0) FROM provider

-- name: save_state
INSERT INTO provider (name, version, state, boot, written, last_lease)
VALUES (:provider, :version, :state, :boot, :written, :last_lease)
ON CONFLICT (name) DO UPDATE SET
    version = excluded.version, state = excluded.state, boot = excluded.boot, written = excluded.written,
    last_lease = excluded.last_lease

-- name: add_run
INSERT INTO run (token, run_id, place, pid, since) VALUES (:token, :run_id, :place, :pid, :since)

-- name: runs
SELECT token, run_id, place, pid, since FROM run ORDER BY since, token

-- name: remove_run
DELETE FROM run WHERE token = :token

-- name: set_keys
INSERT INTO run_keys (token, provider, keys) VALUES (:token, :provider, :keys)
ON CONFLICT (token, provider) DO UPDATE SET keys = excluded.keys

-- name: users
SELECT token, keys FROM run_keys WHERE provider = :provider ORDER BY rowid

-- name: all_keys
SELECT token, provider, keys FROM run_keys

-- name: remove_keys
DELETE FROM run_keys WHERE token = :token
