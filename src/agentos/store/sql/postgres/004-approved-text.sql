-- The hash of the approved document: only this text is filed. Empty in rows of older versions.
ALTER TABLE agentos_outcomes ADD COLUMN text_hash TEXT NOT NULL DEFAULT '';
