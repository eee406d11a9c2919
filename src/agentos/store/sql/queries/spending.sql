-- Spending: runs, and the calls that were paid for. Also where a workflow's items came from.

-- name: add_run
INSERT OR REPLACE INTO run (run_id, workflow)
VALUES (:run_id, :workflow);

-- name: stopped_runs
-- Runs that paid for an item, did not finish by themselves, and were not continued by another run.
SELECT DISTINCT run_id, item
FROM run JOIN call USING (run_id, workflow)
WHERE workflow = :workflow AND NOT finished AND continued_by IS NULL AND call.mock = :mock;

-- name: continue_run
UPDATE run SET continued_by = :run_id
WHERE run_id = :before;

-- name: continued_by
SELECT continued_by FROM run
WHERE run_id = :run_id AND continued_by IS NOT NULL;

-- name: finish_run
UPDATE run SET finished = 1
WHERE run_id = :run_id;

-- name: add_call
INSERT OR IGNORE INTO call
    (life, role, number, run_id, workflow, item, tokens_in, tokens_out, tokens_cached, tokens_cache_written, usd,
     counts, model, mock)
VALUES
    (:journal_id, :role, :number, :run_id, :workflow, :item, :tokens_in, :tokens_out, :tokens_cached,
     :tokens_cache_written, :usd, :counts, :model, :mock);

-- name: close_account
UPDATE call SET counts = 0
WHERE workflow = :workflow AND item = :item AND mock = :mock;

-- name: spent_before
WITH RECURSIVE chain (run_id) AS (
    VALUES (:run_id)
    UNION SELECT run.run_id FROM run JOIN chain ON run.continued_by = chain.run_id
)
SELECT item, total(usd) AS usd
FROM call JOIN chain USING (run_id)
WHERE workflow = :workflow AND run_id != :run_id AND mock = :mock
GROUP BY item;

-- name: spent_on_items
SELECT item, total(usd) AS usd
FROM call
WHERE workflow = :workflow AND mock = :mock AND counts
GROUP BY item;

-- name: usual_outputs
SELECT role, CAST(avg(tokens_out) AS INTEGER) AS usual
FROM call
WHERE workflow = :workflow AND mock = :mock AND tokens_out > 0
GROUP BY role;

-- name: calls_of_approved_items
SELECT life AS journal_id, role, number, run_id, workflow, item, tokens_in, tokens_out, tokens_cached,
    tokens_cache_written, usd, counts, model
FROM call
WHERE workflow = :workflow AND mock = :mock AND NOT counts
    AND item IN (SELECT item FROM outcome WHERE workflow = :workflow AND mock = :mock)
ORDER BY rowid;

-- name: source
SELECT place FROM source
WHERE workflow = :workflow;

-- name: note_source
INSERT OR REPLACE INTO source (workflow, place, updated_at)
VALUES (:workflow, :place, :now);
