-- Times are microseconds since 1970; the zero time is -62135596800000000.
-- Runs have a number beside their ID, so that the index of events stays small
-- and one commit of many runs touches few pages.
CREATE TABLE runs (
	n          INTEGER PRIMARY KEY,
	id         TEXT NOT NULL UNIQUE,
	agent      TEXT NOT NULL,
	parent     TEXT NOT NULL,
	title      TEXT NOT NULL,
	summary    TEXT NOT NULL,
	state      TEXT NOT NULL,
	input_hash TEXT NOT NULL,
	created    INTEGER NOT NULL,
	updated    INTEGER NOT NULL,
	seq        INTEGER NOT NULL,
	owner      TEXT NOT NULL,
	epoch      INTEGER NOT NULL,
	expires    INTEGER NOT NULL
) STRICT;
CREATE INDEX runs_newest ON runs (created, id);
CREATE INDEX runs_open ON runs (created, id) WHERE state IN ('running', 'waiting');

CREATE TABLE events (
	run   INTEGER NOT NULL REFERENCES runs (n),
	seq   INTEGER NOT NULL,
	epoch INTEGER NOT NULL,
	time  INTEGER NOT NULL,
	type  TEXT NOT NULL,
	key   TEXT NOT NULL,
	body  TEXT NOT NULL,
	UNIQUE (run, seq)
) STRICT;

CREATE TABLE asks (
	id       TEXT NOT NULL UNIQUE,
	run      TEXT NOT NULL,
	kind     TEXT NOT NULL,
	tool     TEXT NOT NULL,
	server   TEXT NOT NULL,
	origin   TEXT NOT NULL,
	path     TEXT NOT NULL,
	trust    TEXT NOT NULL,
	payload  TEXT NOT NULL,
	hash     TEXT NOT NULL,
	fallback TEXT NOT NULL,
	created  INTEGER NOT NULL,
	expires  INTEGER NOT NULL,
	status   TEXT NOT NULL,
	answer   TEXT NOT NULL,
	scope    TEXT NOT NULL,
	by       TEXT NOT NULL,
	at       INTEGER NOT NULL
) STRICT;
CREATE INDEX asks_newest ON asks (created, id);
CREATE INDEX asks_status ON asks (status, created, id);
CREATE INDEX asks_run ON asks (run, created, id);

CREATE TABLE approvals (
	file   TEXT NOT NULL,
	server TEXT NOT NULL,
	hash   TEXT NOT NULL,
	shown  TEXT NOT NULL,
	by     TEXT NOT NULL,
	trusted INTEGER NOT NULL,
	at     INTEGER NOT NULL,
	PRIMARY KEY (file, server, hash)
) STRICT;

-- The highest epoch of a deleted run: a new run starts above it, so that a
-- writer of a deleted run cannot append to a new one of the same ID.
CREATE TABLE fence (epoch INTEGER NOT NULL) STRICT;
INSERT INTO fence (epoch) VALUES (0);
