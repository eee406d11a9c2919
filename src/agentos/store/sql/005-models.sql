-- The model that was asked, as provider:model; NULL for a call from before this column.
ALTER TABLE call ADD COLUMN model TEXT;
