-- One row a run: which unfinished run it goes on from, so that a budget counts what was spent before a stop.
CREATE TABLE run (
    run_id TEXT NOT NULL PRIMARY KEY,
    workflow TEXT NOT NULL,
    continues TEXT,
    finished INTEGER NOT NULL DEFAULT 0
) STRICT;

-- What calls took, by run, item and role; an unpriced call has tokens but no known cost.
CREATE TABLE spending (
    run_id TEXT NOT NULL,
    workflow TEXT NOT NULL,
    item TEXT NOT NULL,
    role TEXT NOT NULL,
    calls INTEGER NOT NULL,
    unpriced INTEGER NOT NULL,
    tokens_in INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL,
    usd REAL NOT NULL,
    PRIMARY KEY (run_id, workflow, item, role)
) STRICT;

-- What an item has cost since it was begun; an item's own budget counts this.
ALTER TABLE progress ADD COLUMN spent REAL NOT NULL DEFAULT 0;
