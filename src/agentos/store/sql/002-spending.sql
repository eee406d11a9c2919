-- One row a run: which run went on from it, so that a budget counts what was spent before a stop.
CREATE TABLE run (
    run_id TEXT NOT NULL PRIMARY KEY,
    workflow TEXT NOT NULL,
    continued_by TEXT,
    finished INTEGER NOT NULL DEFAULT 0
) STRICT;

-- One row a paid call, written once however often word of it comes; usd is NULL where no price is known.
CREATE TABLE call (
    life TEXT NOT NULL,
    role TEXT NOT NULL,
    number INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    workflow TEXT NOT NULL,
    item TEXT NOT NULL,
    tokens_in INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL,
    usd REAL,
    counts INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (life, role, number)
) STRICT;
CREATE INDEX call_item ON call (workflow, item);
