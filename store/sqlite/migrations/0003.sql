CREATE TABLE records (
	kind    TEXT NOT NULL,
	owner   TEXT NOT NULL,
	key     TEXT NOT NULL,
	expires INTEGER NOT NULL,
	size    INTEGER NOT NULL, -- bytes of the value
	value   TEXT NOT NULL,
	PRIMARY KEY (kind, owner, key)
) STRICT;
CREATE INDEX records_expiry ON records (expires);
CREATE INDEX records_owner ON records (owner, size);
