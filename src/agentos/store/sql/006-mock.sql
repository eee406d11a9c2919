-- The mock is a world of its own: its rows carry a mark, and no query sees both.
CREATE TABLE outcome_of_both (
    workflow TEXT NOT NULL,
    item TEXT NOT NULL,
    input_hash TEXT NOT NULL,
    run_id TEXT NOT NULL,
    verdict TEXT,
    reviews INTEGER NOT NULL,
    output TEXT,
    finished_at TEXT NOT NULL,
    mock INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (workflow, item, input_hash, mock)
) STRICT;
INSERT INTO outcome_of_both SELECT *, 0 FROM outcome;
DROP TABLE outcome;
ALTER TABLE outcome_of_both RENAME TO outcome;

CREATE TABLE progress_of_both (
    workflow TEXT NOT NULL,
    item TEXT NOT NULL,
    input_hash TEXT NOT NULL,
    run_id TEXT NOT NULL,
    status TEXT NOT NULL,
    node TEXT NOT NULL DEFAULT '',
    reviews INTEGER NOT NULL DEFAULT 0,
    error TEXT,
    updated_at TEXT NOT NULL,
    mock INTEGER NOT NULL DEFAULT 0,
    revise INTEGER NOT NULL DEFAULT 0, -- it began with the document that was there
    PRIMARY KEY (workflow, item, mock)
) STRICT;
INSERT INTO progress_of_both SELECT *, 0, 0 FROM progress;
DROP TABLE progress;
ALTER TABLE progress_of_both RENAME TO progress;

CREATE TABLE decision_of_both (
    workflow TEXT NOT NULL,
    item TEXT NOT NULL,
    input_hash TEXT NOT NULL,
    reviews INTEGER NOT NULL,
    answer TEXT NOT NULL,
    note TEXT NOT NULL,
    decided_by TEXT NOT NULL,
    decided_at TEXT NOT NULL,
    mock INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (workflow, item, input_hash, reviews, mock)
) STRICT;
INSERT INTO decision_of_both SELECT *, 0 FROM decision;
DROP TABLE decision;
ALTER TABLE decision_of_both RENAME TO decision;

ALTER TABLE call ADD COLUMN mock INTEGER NOT NULL DEFAULT 0;

-- What people said about items; a note is used once a run has taken it to the models.
CREATE TABLE note (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    workflow TEXT NOT NULL,
    item TEXT NOT NULL,
    mock INTEGER NOT NULL,
    text TEXT NOT NULL,
    noted_by TEXT NOT NULL,
    noted_at TEXT NOT NULL,
    used_by TEXT
) STRICT;
CREATE INDEX note_item ON note (workflow, item);
