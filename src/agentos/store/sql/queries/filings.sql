-- Filings: what becomes of approved issues on GitHub.

-- name: filing
SELECT workflow, item, input_hash, state, repository, marker, tries, attempted_at, number, url, error, updated_at
FROM filing
WHERE workflow = :workflow AND item = :item AND input_hash = :input_hash;

-- name: filings
SELECT workflow, item, input_hash, state, repository, marker, tries, attempted_at, number, url, error, updated_at
FROM filing
WHERE workflow = :workflow;

-- name: unknown_filings
SELECT workflow, item, input_hash, state, repository, marker, tries, attempted_at, number, url, error, updated_at
FROM filing
WHERE state = 'intended'
ORDER BY workflow, item, updated_at;

-- name: latest_filing
SELECT max(max(updated_at, ifnull(attempted_at, ''))) AS at
FROM filing
WHERE marker != '';

-- name: want_filing
INSERT INTO filing (workflow, item, input_hash, state, updated_at)
VALUES (:workflow, :item, :input_hash, :state, :now)
ON CONFLICT DO UPDATE SET state = excluded.state, updated_at = excluded.updated_at
WHERE state IN ('wanted', 'kept');

-- name: intend
INSERT INTO filing
    (workflow, item, input_hash, state, repository, marker, tries, attempted_at, updated_at)
VALUES (:workflow, :item, :input_hash, 'intended', :repository, :marker, 1, :at, :at)
ON CONFLICT DO UPDATE SET
    state = 'intended',
    attempted_at = iif(marker = excluded.marker, attempted_at, excluded.attempted_at),
    repository = excluded.repository,
    marker = excluded.marker,
    tries = tries + 1,
    error = NULL,
    updated_at = excluded.updated_at
WHERE state != 'filed';

-- name: filed
UPDATE filing SET state = 'filed', number = :number, url = :url, error = NULL, updated_at = :now
WHERE workflow = :workflow AND item = :item AND input_hash = :input_hash AND state != 'filed';

-- name: not_there
UPDATE filing SET state = :state, error = NULL, updated_at = :now
WHERE workflow = :workflow AND item = :item AND input_hash = :input_hash AND state = 'intended';

-- name: filing_failed
INSERT INTO filing (workflow, item, input_hash, state, error, updated_at)
VALUES (:workflow, :item, :input_hash, 'wanted', :error, :now)
ON CONFLICT DO UPDATE SET state = 'wanted', error = excluded.error, updated_at = excluded.updated_at
WHERE state != 'filed';

-- name: filing_unknown
-- It stays intended, and the time of the latest attempt stays.
UPDATE filing SET error = :error
WHERE workflow = :workflow AND item = :item AND input_hash = :input_hash AND state = 'intended';

-- name: forget_filing
-- What may be on GitHub is forgotten only on request.
DELETE FROM filing
WHERE workflow = :workflow AND item = :item AND input_hash = :input_hash
    AND (:sent OR state IN ('wanted', 'kept'));

-- name: rehash_filing
UPDATE OR IGNORE filing SET input_hash = :input_hash
WHERE workflow = :workflow AND item = :item AND input_hash = :old_hash;
