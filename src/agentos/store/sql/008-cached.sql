-- The parts of tokens_in that a call read from a provider's cache, and wrote to it.
ALTER TABLE call ADD COLUMN tokens_cached INTEGER NOT NULL DEFAULT 0;
ALTER TABLE call ADD COLUMN tokens_cache_written INTEGER NOT NULL DEFAULT 0;
