-- What is done: one row an item and input, written once, when the item is approved.
CREATE TABLE outcome (
    workflow TEXT NOT NULL,
    item TEXT NOT NULL,
    input_hash TEXT NOT NULL,
    run_id TEXT NOT NULL,
    verdict TEXT,
    reviews INTEGER NOT NULL,
    output TEXT,
    finished_at TEXT NOT NULL,
    PRIMARY KEY (workflow, item, input_hash)
) STRICT;

-- What is under way or stopped: the latest state of every item that was ever started.
CREATE TABLE progress (
    workflow TEXT NOT NULL,
    item TEXT NOT NULL,
    input_hash TEXT NOT NULL,
    run_id TEXT NOT NULL,
    status TEXT NOT NULL,
    node TEXT NOT NULL DEFAULT '',
    reviews INTEGER NOT NULL DEFAULT 0,
    error TEXT,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (workflow, item)
) STRICT;

-- A person's answers to DISCUSS; each answers the discussion after that many reviews.
CREATE TABLE decision (
    workflow TEXT NOT NULL,
    item TEXT NOT NULL,
    input_hash TEXT NOT NULL,
    reviews INTEGER NOT NULL,
    answer TEXT NOT NULL,
    note TEXT NOT NULL,
    decided_by TEXT NOT NULL,
    decided_at TEXT NOT NULL,
    PRIMARY KEY (workflow, item, input_hash, reviews)
) STRICT;

-- Which run holds an item; it holds it while the run's lock file is locked.
CREATE TABLE claim (
    workflow TEXT NOT NULL,
    item TEXT NOT NULL,
    run_id TEXT NOT NULL,
    pid INTEGER NOT NULL,
    since TEXT NOT NULL,
    PRIMARY KEY (workflow, item)
) STRICT;
