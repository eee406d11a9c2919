-- Items: outcomes, progress, decisions, notes, claims.

-- name: outcomes
SELECT workflow, item, input_hash, run_id, verdict, reviews, output, text_hash, finished_at
FROM outcome
WHERE workflow = :workflow AND mock = :mock
ORDER BY finished_at, rowid;

-- name: add_outcome
INSERT OR IGNORE INTO outcome
    (workflow, item, input_hash, run_id, verdict, reviews, output, text_hash, finished_at, mock)
VALUES (:workflow, :item, :input_hash, :run_id, :verdict, :reviews, :output, :text_hash, :now, :mock);

-- name: move_outcome
UPDATE outcome SET output = :output
WHERE workflow = :workflow AND item = :item AND input_hash = :input_hash AND mock = :mock;

-- name: forget_outcome
DELETE FROM outcome
WHERE workflow = :workflow AND item = :item AND input_hash = :input_hash AND mock = :mock;

-- name: rehash_outcome
UPDATE OR IGNORE outcome SET input_hash = :input_hash
WHERE workflow = :workflow AND item = :item AND input_hash = :old_hash;

-- name: progress
SELECT workflow, item, input_hash, run_id, attempt, status, node, reviews, error, updated_at, revise
FROM progress
WHERE (:workflow IS NULL OR workflow = :workflow) AND mock = :mock;

-- name: begin
-- What is known from an earlier run on the same input is kept.
INSERT INTO progress (workflow, item, mock, input_hash, run_id, attempt, revise, status, updated_at)
VALUES (:workflow, :item, :mock, :input_hash, :run_id, :attempt, :revise, 'running', :now)
ON CONFLICT (workflow, item, mock) DO UPDATE SET
    node = iif(input_hash = excluded.input_hash, node, ''),
    reviews = iif(input_hash = excluded.input_hash, reviews, 0),
    error = NULL,
    input_hash = excluded.input_hash,
    run_id = excluded.run_id,
    attempt = excluded.attempt,
    revise = excluded.revise,
    status = 'running',
    updated_at = excluded.updated_at;

-- name: at_node
UPDATE progress SET node = :node, reviews = :reviews, updated_at = :now
WHERE workflow = :workflow AND item = :item AND mock = :mock;

-- name: end_unapproved
UPDATE progress SET status = :status, reviews = max(reviews, :reviews), error = :error, updated_at = :now
WHERE workflow = :workflow AND item = :item AND mock = :mock;

-- name: drop_progress
DELETE FROM progress
WHERE workflow = :workflow AND item = :item AND mock = :mock;

-- name: rehash_progress
UPDATE OR IGNORE progress SET input_hash = :input_hash
WHERE workflow = :workflow AND item = :item AND input_hash = :old_hash;

-- name: decisions
SELECT id, workflow, item, question, text, answer, reviews, noted_by AS by, noted_at AS at, used_by IS NOT NULL AS used
FROM note
WHERE (:workflow IS NULL OR workflow = :workflow) AND mock = :mock AND kept = 0
ORDER BY id;

-- name: drop_answers
DELETE FROM note
WHERE workflow = :workflow AND item = :item AND mock = :mock AND answer != '' AND used_by IS NULL;

-- name: add_decision
INSERT INTO note (workflow, item, mock, question, text, answer, reviews, noted_by, noted_at)
VALUES (:workflow, :item, :mock, :question, :text, :answer, :reviews, :by, :at);

-- name: use_decisions
UPDATE note SET used_by = coalesce(used_by, :run_id), kept = max(kept, :kept)
WHERE workflow = :workflow AND item = :item AND mock = :mock AND id <= :latest;

-- name: claims
SELECT workflow, item, run_id, attempt, pid, since FROM claim;

-- name: holder
SELECT workflow, item, run_id, attempt, pid, since
FROM claim
WHERE workflow = :workflow AND item = :item;

-- name: add_claim
INSERT INTO claim (workflow, item, run_id, attempt, pid, since)
VALUES (:workflow, :item, :run_id, :attempt, :pid, :since);

-- name: begin_attempt
UPDATE claim SET attempt = :attempt
WHERE workflow = :workflow AND item = :item;

-- name: release
DELETE FROM claim
WHERE run_id = :run_id;
