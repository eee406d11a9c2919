-- Spending in PostgreSQL: runs, and the calls that were paid for. The same statements as in spending.sql, for one project.

-- name: add_run
INSERT INTO agentos_runs (project, run_id, workflow)
VALUES (:project, :run_id, :workflow)
ON CONFLICT (project, run_id) DO UPDATE SET workflow = excluded.workflow, continued_by = NULL, finished = 0;

-- name: stopped_runs
-- Runs that paid for an item, did not finish by themselves, and were not continued by another run.
SELECT DISTINCT run_id, item
FROM agentos_runs AS run JOIN agentos_paid_calls AS call USING (project, run_id, workflow)
WHERE project = :project AND workflow = :workflow AND finished = 0 AND continued_by IS NULL AND mock = :mock;

-- name: continue_run
UPDATE agentos_runs SET continued_by = :run_id
WHERE project = :project AND run_id = :before;

-- name: continued_by
SELECT continued_by FROM agentos_runs
WHERE project = :project AND run_id = :run_id AND continued_by IS NOT NULL;

-- name: finish_run
UPDATE agentos_runs SET finished = 1
WHERE project = :project AND run_id = :run_id;

-- name: add_call
-- Counts as added if this very write added it before: its end was unknown, so it is repeated.
INSERT INTO agentos_paid_calls AS kept
    (project, life, role, number, run_id, workflow, item, tokens_in, tokens_out, tokens_cached,
    tokens_cache_written, usd, counts, model, mock, write)
VALUES
    (:project, :journal_id, :role, :number, :run_id, :workflow, :item, :tokens_in, :tokens_out, :tokens_cached,
    :tokens_cache_written, :usd, :counts, :model, :mock, :write)
ON CONFLICT (project, life, role, number) DO UPDATE SET write = excluded.write
WHERE kept.write = excluded.write;

-- name: close_account
UPDATE agentos_paid_calls SET counts = 0
WHERE project = :project AND workflow = :workflow AND item = :item AND mock = :mock;

-- name: spent_before
WITH RECURSIVE chain (run_id) AS (
    SELECT CAST(:run_id AS TEXT)
    UNION SELECT run.run_id FROM agentos_runs AS run JOIN chain ON run.continued_by = chain.run_id
    WHERE run.project = :project
)
SELECT item, coalesce(sum(usd), 0.0) AS usd
FROM agentos_paid_calls JOIN chain USING (run_id)
WHERE project = :project AND workflow = :workflow AND run_id != :run_id AND mock = :mock
GROUP BY item;

-- name: spent_on_items
SELECT item, coalesce(sum(usd), 0.0) AS usd
FROM agentos_paid_calls
WHERE project = :project AND workflow = :workflow AND mock = :mock AND counts = 1
GROUP BY item;

-- name: usual_outputs
SELECT role, CAST(trunc(avg(tokens_out)) AS BIGINT) AS usual
FROM agentos_paid_calls
WHERE project = :project AND workflow = :workflow AND mock = :mock AND tokens_out > 0
GROUP BY role;

-- name: calls_of_approved_items
SELECT life AS journal_id, role, number, run_id, workflow, item, tokens_in, tokens_out, tokens_cached,
    tokens_cache_written, usd, counts, model
FROM agentos_paid_calls
WHERE project = :project AND workflow = :workflow AND mock = :mock AND counts = 0
    AND item IN (
        SELECT item FROM agentos_outcomes WHERE project = :project AND workflow = :workflow AND mock = :mock
    )
ORDER BY id;

-- name: source
SELECT place FROM agentos_sources
WHERE project = :project AND workflow = :workflow;

-- name: note_source
INSERT INTO agentos_sources (project, workflow, place, updated_at)
VALUES (:project, :workflow, :place, :now)
ON CONFLICT (project, workflow) DO UPDATE SET place = excluded.place, updated_at = excluded.updated_at;
