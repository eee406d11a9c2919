-- The records of all projects. Every key begins with the project: no statement sees the rows of another one.

-- A run, alive while its submitter beats. `owner` is random: two machines may give a run the same name.
CREATE TABLE agentos_runs (
    project TEXT NOT NULL,
    run_id TEXT NOT NULL,
    owner TEXT NOT NULL DEFAULT '',
    beaten_at TIMESTAMPTZ NOT NULL DEFAULT '-infinity',
    workflow TEXT NOT NULL DEFAULT '',
    continued_by TEXT,
    finished INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (project, run_id)
);

-- Approved items; one row for each text of an item.
CREATE TABLE agentos_outcomes (
    project TEXT NOT NULL,
    workflow TEXT NOT NULL,
    item TEXT NOT NULL,
    input_hash TEXT NOT NULL,
    mock INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    verdict TEXT,
    reviews BIGINT NOT NULL,
    output TEXT,
    finished_at TEXT NOT NULL,
    place BIGINT GENERATED ALWAYS AS IDENTITY,
    PRIMARY KEY (project, workflow, item, input_hash, mock)
);

-- The latest state of every unfinished item that was ever started.
CREATE TABLE agentos_progress (
    project TEXT NOT NULL,
    workflow TEXT NOT NULL,
    item TEXT NOT NULL,
    mock INTEGER NOT NULL,
    input_hash TEXT NOT NULL,
    run_id TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    status TEXT NOT NULL,
    node TEXT NOT NULL DEFAULT '',
    reviews BIGINT NOT NULL DEFAULT 0,
    error TEXT,
    updated_at TEXT NOT NULL,
    revise INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (project, workflow, item, mock)
);

-- A person's answers to DISCUSS; each answers the discussion after that many reviews.
CREATE TABLE agentos_decisions (
    project TEXT NOT NULL,
    workflow TEXT NOT NULL,
    item TEXT NOT NULL,
    input_hash TEXT NOT NULL,
    reviews BIGINT NOT NULL,
    mock INTEGER NOT NULL,
    answer TEXT NOT NULL,
    note TEXT NOT NULL,
    decided_by TEXT NOT NULL,
    decided_at TEXT NOT NULL,
    PRIMARY KEY (project, workflow, item, input_hash, reviews, mock)
);

-- What people said about items; a note is used once a run has taken it to the models. `write` is the number of the write
-- that made the row: a write whose end is unknown is repeated, and must not add it twice.
CREATE TABLE agentos_notes (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    project TEXT NOT NULL,
    workflow TEXT NOT NULL,
    item TEXT NOT NULL,
    mock INTEGER NOT NULL,
    text TEXT NOT NULL,
    noted_by TEXT NOT NULL,
    noted_at TEXT NOT NULL,
    used_by TEXT,
    write TEXT NOT NULL UNIQUE
);
CREATE INDEX agentos_notes_item ON agentos_notes (project, workflow, item);

-- Which run and attempt has an item.
CREATE TABLE agentos_claims (
    project TEXT NOT NULL,
    workflow TEXT NOT NULL,
    item TEXT NOT NULL,
    run_id TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    pid BIGINT NOT NULL,
    since TEXT NOT NULL,
    host TEXT NOT NULL DEFAULT '',  -- its run's machine, for people: the number of a process means nothing on another one
    PRIMARY KEY (project, workflow, item)
);

-- One row for each paid call; usd is NULL if the price is not known.
CREATE TABLE agentos_paid_calls (
    id BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
    project TEXT NOT NULL,
    life TEXT NOT NULL,
    role TEXT NOT NULL,
    number BIGINT NOT NULL,
    run_id TEXT NOT NULL,
    workflow TEXT NOT NULL,
    item TEXT NOT NULL,
    tokens_in BIGINT NOT NULL,
    tokens_out BIGINT NOT NULL,
    tokens_cached BIGINT NOT NULL,
    tokens_cache_written BIGINT NOT NULL,
    usd DOUBLE PRECISION,
    counts INTEGER NOT NULL,
    model TEXT,
    mock INTEGER NOT NULL,
    write TEXT NOT NULL,
    PRIMARY KEY (project, life, role, number)
);
CREATE INDEX agentos_paid_calls_item ON agentos_paid_calls (project, workflow, item);

-- What becomes of an approved issue on GitHub; the intent is here before anything is sent.
CREATE TABLE agentos_filings (
    project TEXT NOT NULL,
    workflow TEXT NOT NULL,
    item TEXT NOT NULL,
    input_hash TEXT NOT NULL,
    state TEXT NOT NULL,
    repository TEXT NOT NULL DEFAULT '',
    marker TEXT NOT NULL DEFAULT '',
    tries BIGINT NOT NULL DEFAULT 0,
    attempted_at TEXT,
    number BIGINT,
    url TEXT,
    error TEXT,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (project, workflow, item, input_hash)
);

-- Where the items of each workflow came from in its last run.
CREATE TABLE agentos_sources (
    project TEXT NOT NULL,
    workflow TEXT NOT NULL,
    place TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (project, workflow)
);
