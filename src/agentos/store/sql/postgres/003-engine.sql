-- What runs items on other machines: machines, attempts, the messages between them, and what comes back.

CREATE TABLE agentos_machines (
    name text PRIMARY KEY,
    slots integer NOT NULL,
    version text NOT NULL,  -- of agentos: it takes only jobs of the same one
    providers text[] NOT NULL DEFAULT '{}',  -- whose items it can run: it has a usable key
    since timestamptz NOT NULL DEFAULT now(),
    beat timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE agentos_attempts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    project text NOT NULL,
    run_id text NOT NULL,
    item text NOT NULL,
    attempt integer NOT NULL,
    job bytea NOT NULL,
    state text NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'taken', 'over')),
    machine text,
    made_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX agentos_attempts_open ON agentos_attempts (project, run_id) WHERE state <> 'over';

CREATE TABLE agentos_mail (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    attempt bigint NOT NULL REFERENCES agentos_attempts ON DELETE CASCADE,
    receiver text NOT NULL,  -- the run or the machine
    number bigint NOT NULL,  -- of the sender; a message may be here twice, if its sender lost the connection
    kind text NOT NULL,
    body bytea NOT NULL
);
-- Rows live for milliseconds. A B-tree that only grows at its end keeps the dead ones until the next vacuum.
CREATE INDEX agentos_mail_receiver ON agentos_mail USING hash (receiver);

-- Files that the attempts of an item wrote. No body: it removed the file. The item's trail stays here until the item has
-- ended, for a submitter in another clone.
CREATE TABLE agentos_files (
    project text NOT NULL,
    workflow text NOT NULL,
    item text NOT NULL,
    path text NOT NULL,
    body bytea,
    placed boolean NOT NULL DEFAULT false,  -- a submitter has put it in place
    PRIMARY KEY (project, workflow, item, path)
);

-- The journal of paid calls, beside LangGraph's tables. A thread is one item.
CREATE TABLE agentos_calls (
    thread text NOT NULL,
    role text NOT NULL,
    number integer NOT NULL,
    reply text NOT NULL,
    record text NOT NULL,
    place bigint GENERATED ALWAYS AS IDENTITY,
    PRIMARY KEY (thread, role, number)
);
CREATE TABLE agentos_journals (thread text PRIMARY KEY, id text NOT NULL);
