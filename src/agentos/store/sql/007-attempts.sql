-- Which attempt of its run has an item: a write by an earlier one is refused. 0: the run has not begun it.
ALTER TABLE claim ADD COLUMN attempt INTEGER NOT NULL DEFAULT 0;
ALTER TABLE progress ADD COLUMN attempt INTEGER NOT NULL DEFAULT 0;
