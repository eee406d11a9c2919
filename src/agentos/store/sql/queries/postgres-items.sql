-- Items in PostgreSQL: outcomes, progress, decisions, notes, claims. The same statements as in items.sql, for one project.

-- name: lock_project
-- One write of a project at a time, until its transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended('agentos records ' || :project, 0));

-- name: beat
INSERT INTO agentos_runs (project, run_id, owner, beaten_at)
VALUES (:project, :run_id, :owner, clock_timestamp())
ON CONFLICT (project, run_id) DO UPDATE SET beaten_at = excluded.beaten_at, owner = excluded.owner
WHERE agentos_runs.owner IN ('', excluded.owner);

-- name: stop_beating
UPDATE agentos_runs SET beaten_at = '-infinity'
WHERE project = :project AND run_id = :run_id AND owner = :owner;

-- name: alive
SELECT run_id FROM agentos_runs
WHERE project = :project AND run_id = :run_id
    AND beaten_at > clock_timestamp() - make_interval(secs => :seconds);

-- name: outcomes
SELECT workflow, item, input_hash, run_id, verdict, reviews, output, text_hash, finished_at
FROM agentos_outcomes
WHERE project = :project AND workflow = :workflow AND mock = :mock
ORDER BY finished_at COLLATE "C", place;

-- name: add_outcome
INSERT INTO agentos_outcomes
    (project, workflow, item, input_hash, run_id, verdict, reviews, output, text_hash, finished_at, mock)
VALUES (:project, :workflow, :item, :input_hash, :run_id, :verdict, :reviews, :output, :text_hash, :now, :mock)
ON CONFLICT DO NOTHING;

-- name: move_outcome
UPDATE agentos_outcomes SET output = :output
WHERE project = :project AND workflow = :workflow AND item = :item AND input_hash = :input_hash AND mock = :mock;

-- name: forget_outcome
DELETE FROM agentos_outcomes
WHERE project = :project AND workflow = :workflow AND item = :item AND input_hash = :input_hash AND mock = :mock;

-- name: rehash_outcome
UPDATE agentos_outcomes AS old SET input_hash = :input_hash
WHERE project = :project AND workflow = :workflow AND item = :item AND input_hash = :old_hash
    AND NOT EXISTS (
        SELECT FROM agentos_outcomes AS new
        WHERE (new.project, new.workflow, new.item, new.input_hash, new.mock)
            = (old.project, old.workflow, old.item, :input_hash, old.mock)
    );

-- name: progress
SELECT workflow, item, input_hash, run_id, attempt, status, node, reviews, error, updated_at, revise
FROM agentos_progress
WHERE project = :project AND workflow = coalesce(:workflow, workflow) AND mock = :mock;

-- name: begin
-- What is known from an earlier run on the same input is kept.
INSERT INTO agentos_progress AS kept
    (project, workflow, item, mock, input_hash, run_id, attempt, revise, status, updated_at)
VALUES (:project, :workflow, :item, :mock, :input_hash, :run_id, :attempt, :revise, 'running', :now)
ON CONFLICT (project, workflow, item, mock) DO UPDATE SET
    node = CASE WHEN kept.input_hash = excluded.input_hash THEN kept.node ELSE '' END,
    reviews = CASE WHEN kept.input_hash = excluded.input_hash THEN kept.reviews ELSE 0 END,
    error = NULL,
    input_hash = excluded.input_hash,
    run_id = excluded.run_id,
    attempt = excluded.attempt,
    revise = excluded.revise,
    status = 'running',
    updated_at = excluded.updated_at;

-- name: at_node
UPDATE agentos_progress SET node = :node, reviews = :reviews, updated_at = :now
WHERE project = :project AND workflow = :workflow AND item = :item AND mock = :mock;

-- name: end_unapproved
UPDATE agentos_progress
SET status = :status, reviews = greatest(reviews, :reviews), error = :error, updated_at = :now
WHERE project = :project AND workflow = :workflow AND item = :item AND mock = :mock;

-- name: drop_progress
DELETE FROM agentos_progress
WHERE project = :project AND workflow = :workflow AND item = :item AND mock = :mock;

-- name: rehash_progress
UPDATE agentos_progress SET input_hash = :input_hash
WHERE project = :project AND workflow = :workflow AND item = :item AND input_hash = :old_hash;

-- name: decisions
SELECT id, workflow, item, question, text, answer, reviews, noted_by AS by, noted_at AS at,
    (used_by IS NOT NULL)::int AS used
FROM agentos_notes
WHERE project = :project AND workflow = coalesce(:workflow, workflow) AND mock = :mock AND kept = 0
ORDER BY id;

-- name: drop_answers
DELETE FROM agentos_notes
WHERE project = :project AND workflow = :workflow AND item = :item AND mock = :mock AND answer != ''
    AND used_by IS NULL AND write NOT LIKE :write || '%';

-- name: add_decision
INSERT INTO agentos_notes
    (project, workflow, item, mock, question, text, answer, reviews, noted_by, noted_at, write)
VALUES (:project, :workflow, :item, :mock, :question, :text, :answer, :reviews, :by, :at, :write || ' ' || :place::text)
ON CONFLICT (write) DO NOTHING;

-- name: use_decisions
UPDATE agentos_notes SET used_by = coalesce(used_by, :run_id), kept = greatest(kept, :kept)
WHERE project = :project AND workflow = :workflow AND item = :item AND mock = :mock AND id <= :latest;

-- name: claims
SELECT workflow, item, run_id, attempt, pid, since, host FROM agentos_claims
WHERE project = :project;

-- name: holder
SELECT workflow, item, run_id, attempt, pid, since, host
FROM agentos_claims
WHERE project = :project AND workflow = :workflow AND item = :item;

-- name: add_claim
INSERT INTO agentos_claims (project, workflow, item, run_id, attempt, pid, since, host)
VALUES (:project, :workflow, :item, :run_id, :attempt, :pid, :since, :host);

-- name: begin_attempt
UPDATE agentos_claims SET attempt = :attempt
WHERE project = :project AND workflow = :workflow AND item = :item;

-- name: release
DELETE FROM agentos_claims
WHERE project = :project AND run_id = :run_id;
