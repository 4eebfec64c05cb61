CREATE TABLE pins (
	source TEXT NOT NULL,
	server TEXT NOT NULL,
	tool   TEXT NOT NULL,
	hash   TEXT NOT NULL,
	at     INTEGER NOT NULL,
	PRIMARY KEY (source, server, tool)
) STRICT;
