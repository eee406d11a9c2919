-- Where the items of each workflow came from in its last run, so that a change of it can be announced.
CREATE TABLE source (
    workflow TEXT PRIMARY KEY,
    place TEXT NOT NULL,
    updated_at TEXT NOT NULL
) STRICT;
