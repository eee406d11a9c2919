-- Filings in PostgreSQL. The same statements as in filings.sql, for one project.

-- name: filing
SELECT workflow, item, input_hash, state, repository, marker, tries, attempted_at, number, url, error, updated_at
FROM agentos_filings
WHERE project = :project AND workflow = :workflow AND item = :item AND input_hash = :input_hash;

-- name: filings
SELECT workflow, item, input_hash, state, repository, marker, tries, attempted_at, number, url, error, updated_at
FROM agentos_filings
WHERE project = :project AND workflow = :workflow;

-- name: unknown_filings
SELECT workflow, item, input_hash, state, repository, marker, tries, attempted_at, number, url, error, updated_at
FROM agentos_filings
WHERE project = :project AND state = 'intended'
ORDER BY workflow COLLATE "C", item COLLATE "C", updated_at COLLATE "C";

-- name: latest_filing
SELECT max(greatest(updated_at, coalesce(attempted_at, '')) COLLATE "C") AS at
FROM agentos_filings
WHERE project = :project AND marker != '';

-- name: want_filing
INSERT INTO agentos_filings AS kept (project, workflow, item, input_hash, state, updated_at)
VALUES (:project, :workflow, :item, :input_hash, :state, :now)
ON CONFLICT (project, workflow, item, input_hash)
DO UPDATE SET state = excluded.state, updated_at = excluded.updated_at
WHERE kept.state IN ('wanted', 'kept');

-- name: intend
INSERT INTO agentos_filings AS kept
    (project, workflow, item, input_hash, state, repository, marker, tries, attempted_at, updated_at)
VALUES (:project, :workflow, :item, :input_hash, 'intended', :repository, :marker, 1, :at, :at)
ON CONFLICT (project, workflow, item, input_hash) DO UPDATE SET
    state = 'intended',
    attempted_at = CASE WHEN kept.marker = excluded.marker THEN kept.attempted_at ELSE excluded.attempted_at END,
    repository = excluded.repository,
    marker = excluded.marker,
    tries = kept.tries + 1,
    error = NULL,
    updated_at = excluded.updated_at
WHERE kept.state != 'filed';

-- name: filed
UPDATE agentos_filings SET state = 'filed', number = :number, url = :url, error = NULL, updated_at = :now
WHERE project = :project AND workflow = :workflow AND item = :item AND input_hash = :input_hash
    AND state != 'filed';

-- name: not_there
UPDATE agentos_filings SET state = :state, error = NULL, updated_at = :now
WHERE project = :project AND workflow = :workflow AND item = :item AND input_hash = :input_hash
    AND state = 'intended';

-- name: filing_failed
INSERT INTO agentos_filings AS kept (project, workflow, item, input_hash, state, error, updated_at)
VALUES (:project, :workflow, :item, :input_hash, 'wanted', :error, :now)
ON CONFLICT (project, workflow, item, input_hash)
DO UPDATE SET state = 'wanted', error = excluded.error, updated_at = excluded.updated_at
WHERE kept.state != 'filed';

-- name: filing_unknown
-- It stays intended, and the time of the latest attempt stays.
UPDATE agentos_filings SET error = :error
WHERE project = :project AND workflow = :workflow AND item = :item AND input_hash = :input_hash
    AND state = 'intended';

-- name: forget_filing
-- What may be on GitHub is forgotten only on request.
DELETE FROM agentos_filings
WHERE project = :project AND workflow = :workflow AND item = :item AND input_hash = :input_hash
    AND (:sent = 1 OR state IN ('wanted', 'kept'));

-- name: rehash_filing
UPDATE agentos_filings AS old SET input_hash = :input_hash
WHERE project = :project AND workflow = :workflow AND item = :item AND input_hash = :old_hash
    AND NOT EXISTS (
        SELECT FROM agentos_filings AS new
        WHERE (new.project, new.workflow, new.item, new.input_hash)
            = (old.project, old.workflow, old.item, :input_hash)
    );
