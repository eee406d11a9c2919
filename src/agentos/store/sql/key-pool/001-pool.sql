-- The salt of the fingerprints of keys: one row, made with the database.
CREATE TABLE salt (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    value BLOB NOT NULL
) STRICT;

-- The state of the keys of one provider, as JSON. Times in it are wall-clock times.
CREATE TABLE provider (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    state TEXT NOT NULL,
    boot TEXT NOT NULL,
    written REAL NOT NULL,
    last_lease INTEGER NOT NULL
) STRICT;

-- The runs that are active now. Each holds the lock of its own file.
CREATE TABLE run (
    token TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    place TEXT NOT NULL,
    pid INTEGER NOT NULL,
    since TEXT NOT NULL
) STRICT;

-- The keys that a run uses, by fingerprint, with the limits in its configuration, as JSON.
CREATE TABLE run_keys (
    token TEXT NOT NULL,
    provider TEXT NOT NULL,
    keys TEXT NOT NULL,
    PRIMARY KEY (token, provider)
) STRICT;
