-- Steps of migrations that need more than a script.

-- name: runs_with_rows
SELECT run_id FROM outcome UNION SELECT run_id FROM progress UNION SELECT run_id FROM call;

-- name: mark_outcomes
UPDATE outcome SET mock = 1 WHERE run_id = :run_id;

-- name: mark_progress
UPDATE progress SET mock = 1 WHERE run_id = :run_id;

-- name: mark_calls
UPDATE call SET mock = 1 WHERE run_id = :run_id;

-- name: mark_decisions
WITH known AS (
    SELECT workflow, item, input_hash, mock FROM progress
    UNION SELECT workflow, item, input_hash, mock FROM outcome
)
UPDATE decision SET mock = 1
WHERE (workflow, item, input_hash, 1) IN (SELECT * FROM known)
    AND (workflow, item, input_hash, 0) NOT IN (SELECT * FROM known);

-- name: unfinished_of_the_mock
SELECT workflow, item FROM progress WHERE mock = 1;
