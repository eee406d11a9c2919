-- What becomes of an approved issue on GitHub; the intent is here, synced, before anything is sent.
CREATE TABLE filing (
    workflow TEXT NOT NULL,
    item TEXT NOT NULL,
    input_hash TEXT NOT NULL,
    state TEXT NOT NULL,
    repository TEXT NOT NULL DEFAULT '',
    marker TEXT NOT NULL DEFAULT '',
    tries INTEGER NOT NULL DEFAULT 0,
    attempted_at TEXT,
    number INTEGER,
    url TEXT,
    error TEXT,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (workflow, item, input_hash)
) STRICT;
