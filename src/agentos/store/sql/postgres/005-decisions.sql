-- One table for all that people say about items: notes, and answers to DISCUSS with their question. `kept`: the item's
-- document has it, and decides from then on. An answer that was used
-- and has no words says nothing about a later draft.
ALTER TABLE agentos_notes ADD COLUMN question TEXT NOT NULL DEFAULT '';
ALTER TABLE agentos_notes ADD COLUMN answer TEXT NOT NULL DEFAULT '';
ALTER TABLE agentos_notes ADD COLUMN reviews BIGINT NOT NULL DEFAULT 0;
ALTER TABLE agentos_notes ADD COLUMN kept INTEGER NOT NULL DEFAULT 0;
INSERT INTO agentos_notes
    (project, workflow, item, mock, question, text, answer, reviews, noted_by, noted_at, used_by, write)
SELECT
    said.project, said.workflow, said.item, said.mock, coalesce(waiting.error, ''), said.note, said.answer, said.reviews,
    said.decided_by, said.decided_at, CASE WHEN waiting.item IS NULL THEN 'an earlier run' END,
    md5(concat_ws('/', said.project, said.workflow, said.item, said.input_hash, said.reviews, said.mock))
FROM agentos_decisions AS said
LEFT JOIN agentos_progress AS waiting
    ON (waiting.project, waiting.workflow, waiting.item, waiting.mock, waiting.input_hash, waiting.reviews)
        = (said.project, said.workflow, said.item, said.mock, said.input_hash, said.reviews)
    AND waiting.status = 'discuss'
WHERE waiting.item IS NOT NULL OR said.note != ''
ORDER BY said.decided_at;
DROP TABLE agentos_decisions;
