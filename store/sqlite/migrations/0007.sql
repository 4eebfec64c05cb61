-- The job that waits for the ask without a worker; empty for none.
ALTER TABLE asks ADD COLUMN job TEXT NOT NULL DEFAULT '';
CREATE INDEX jobs_parked ON jobs (not_before, n) WHERE state = 'waiting' AND owner = '';
