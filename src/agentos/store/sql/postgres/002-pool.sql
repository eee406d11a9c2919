-- The key pool, shared by all machines that use this database. It contains no key, only salted fingerprints.

-- The salt of the fingerprints: one row, made by the first run.
CREATE TABLE agentos_pool_salt (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    value BYTEA NOT NULL
);

-- The state of the keys of one provider, as JSON. All times are by the clock of the database.
-- The row is written with every call of every machine, so its old versions are removed often.
CREATE TABLE agentos_pool (
    name TEXT PRIMARY KEY,
    slot BIGINT GENERATED ALWAYS AS IDENTITY (MINVALUE 0 START 0), -- so that no two rows give the same lease number
    version BIGINT NOT NULL DEFAULT 0,
    state TEXT NOT NULL DEFAULT '',
    written DOUBLE PRECISION NOT NULL DEFAULT 0,
    last_lease BIGINT NOT NULL DEFAULT 0
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 500,
    toast.autovacuum_vacuum_scale_factor = 0,
    toast.autovacuum_vacuum_threshold = 2000
);

-- The runs that are active now. Each says every few seconds that it is alive.
CREATE TABLE agentos_pool_run (
    token TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    place TEXT NOT NULL,
    pid INTEGER NOT NULL,
    since TEXT NOT NULL,
    beat TIMESTAMPTZ NOT NULL,
    host TEXT NOT NULL DEFAULT ''  -- its machine, for people
) WITH (fillfactor = 50);

-- The keys that a run uses, by fingerprint, with the limits in its configuration, as JSON.
CREATE TABLE agentos_pool_keys (
    token TEXT NOT NULL,
    provider TEXT NOT NULL,
    position BIGINT GENERATED ALWAYS AS IDENTITY,
    keys TEXT NOT NULL,
    PRIMARY KEY (token, provider)
);
