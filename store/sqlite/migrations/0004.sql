-- due is not_before, or when the job was added or queued again if that is later.
CREATE TABLE jobs (
	n            INTEGER PRIMARY KEY,
	id           TEXT NOT NULL UNIQUE,
	agent        TEXT NOT NULL,
	key          TEXT NOT NULL,
	batch        TEXT NOT NULL,
	prompt       TEXT NOT NULL,
	input        TEXT NOT NULL,
	max_attempts INTEGER NOT NULL,
	not_before   INTEGER NOT NULL,
	expires      INTEGER NOT NULL,
	timeout      INTEGER NOT NULL, -- nanoseconds
	hook         TEXT NOT NULL,
	schedule     TEXT NOT NULL,
	state        TEXT NOT NULL,
	attempts     INTEGER NOT NULL,
	failures     INTEGER NOT NULL,
	run          TEXT NOT NULL,
	result       TEXT NOT NULL,
	error        TEXT NOT NULL,
	cancelling   INTEGER NOT NULL,
	untold       INTEGER NOT NULL,
	created      INTEGER NOT NULL,
	updated      INTEGER NOT NULL,
	owner        TEXT NOT NULL,
	epoch        INTEGER NOT NULL,
	lease        INTEGER NOT NULL,
	due          INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX jobs_key ON jobs (key) WHERE key <> '';
CREATE INDEX jobs_due ON jobs (agent, due, n) WHERE state = 'queued';
CREATE INDEX jobs_held ON jobs (lease, n) WHERE owner <> '';
CREATE INDEX jobs_cancelling ON jobs (owner) WHERE cancelling = 1;
CREATE INDEX jobs_untold ON jobs (created, id) WHERE untold = 1;
CREATE INDEX jobs_newest ON jobs (created, id);
CREATE INDEX jobs_state ON jobs (state, created, id);
CREATE INDEX jobs_batch ON jobs (batch, created, id) WHERE batch <> '';
CREATE INDEX jobs_schedule ON jobs (schedule, created, id) WHERE schedule <> '';

CREATE TABLE schedules (
	name         TEXT NOT NULL PRIMARY KEY,
	cron         TEXT NOT NULL,
	zone         TEXT NOT NULL,
	agent        TEXT NOT NULL,
	prompt       TEXT NOT NULL,
	input        TEXT NOT NULL,
	batch        TEXT NOT NULL,
	max_attempts INTEGER NOT NULL,
	timeout      INTEGER NOT NULL,
	hook         TEXT NOT NULL,
	overlap      INTEGER NOT NULL,
	paused       INTEGER NOT NULL,
	next         INTEGER NOT NULL,
	last         INTEGER NOT NULL,
	last_job     TEXT NOT NULL,
	created      INTEGER NOT NULL,
	updated      INTEGER NOT NULL
) STRICT;

-- The order in which asks were settled; zero is not yet, or before this schema.
ALTER TABLE asks ADD COLUMN settled INTEGER NOT NULL DEFAULT 0;
CREATE INDEX asks_settled ON asks (settled) WHERE settled > 0;
-- The last number of that order, and the highest epoch of a deleted job.
ALTER TABLE fence ADD COLUMN settled INTEGER NOT NULL DEFAULT 0;
ALTER TABLE fence ADD COLUMN job INTEGER NOT NULL DEFAULT 0;
