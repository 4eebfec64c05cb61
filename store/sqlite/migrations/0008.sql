-- Most jobs are done, and are found by their times; those that are running are found by their leases. So a job moves
-- no entry of this index from its claim to its end.
DROP INDEX jobs_state;
CREATE INDEX jobs_state ON jobs (state, created, id) WHERE state NOT IN ('running', 'done');
