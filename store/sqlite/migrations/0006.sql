CREATE TABLE vault (
	kind    TEXT NOT NULL,
	key     TEXT NOT NULL,
	version INTEGER NOT NULL,
	value   BLOB NOT NULL, -- sealed
	updated INTEGER NOT NULL,
	PRIMARY KEY (kind, key)
) STRICT;
CREATE TABLE vault_leases (
	kind  TEXT NOT NULL,
	key   TEXT NOT NULL,
	owner TEXT NOT NULL,
	until INTEGER NOT NULL,
	PRIMARY KEY (kind, key)
) STRICT;
