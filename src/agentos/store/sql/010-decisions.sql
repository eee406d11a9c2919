-- One table for all that people say about items: notes, and answers to DISCUSS with their question. `kept`: the item's
-- document has it, and decides from then on. An answer that was used
-- and has no words says nothing about a later draft.
ALTER TABLE note ADD COLUMN question TEXT NOT NULL DEFAULT '';
ALTER TABLE note ADD COLUMN answer TEXT NOT NULL DEFAULT '';
ALTER TABLE note ADD COLUMN reviews INTEGER NOT NULL DEFAULT 0;
ALTER TABLE note ADD COLUMN kept INTEGER NOT NULL DEFAULT 0;
INSERT INTO note (workflow, item, mock, question, text, answer, reviews, noted_by, noted_at, used_by)
SELECT
    decision.workflow, decision.item, decision.mock, coalesce(waiting.error, ''), decision.note, decision.answer,
    decision.reviews, decision.decided_by, decision.decided_at, iif(waiting.item IS NULL, 'an earlier run', NULL)
FROM decision
LEFT JOIN progress AS waiting
    ON waiting.workflow = decision.workflow AND waiting.item = decision.item AND waiting.mock = decision.mock
    AND waiting.input_hash = decision.input_hash AND waiting.reviews = decision.reviews AND waiting.status = 'discuss'
WHERE waiting.item IS NOT NULL OR decision.note != ''
ORDER BY decision.decided_at;
DROP TABLE decision;
