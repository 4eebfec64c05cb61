-- A tree of runs has one lease: that of its job while the job has not ended and the root is its newest attempt, else that
-- in the row of the root. The other rows of a tree have no owner.
ALTER TABLE runs ADD COLUMN root TEXT NOT NULL DEFAULT ''; -- the run at the root of its tree, its own for a root
ALTER TABLE runs ADD COLUMN job TEXT NOT NULL DEFAULT ''; -- the job whose attempt the root is; empty for none
ALTER TABLE jobs ADD COLUMN origin TEXT NOT NULL DEFAULT ''; -- the run that an attempt goes on from; empty for none
ALTER TABLE jobs ADD COLUMN progress INTEGER NOT NULL DEFAULT 0; -- how far the run was at the last loss

-- Runs that took the place of one that had not begun have no use any more: without its lease no run begins.
UPDATE fence SET epoch = max(epoch, coalesce((SELECT max(epoch) FROM runs WHERE title = 'a run that was not begun' AND state IN ('running', 'waiting')), 0));
DELETE FROM events WHERE run IN (SELECT n FROM runs WHERE title = 'a run that was not begun' AND state IN ('running', 'waiting'));
DELETE FROM runs WHERE title = 'a run that was not begun' AND state IN ('running', 'waiting');

CREATE INDEX runs_parent ON runs (parent) WHERE parent <> '';
WITH RECURSIVE tree (id, root) AS (
	SELECT id, id FROM runs WHERE parent = '' OR parent NOT IN (SELECT id FROM runs)
	UNION ALL
	SELECT runs.id, tree.root FROM tree JOIN runs ON runs.parent = tree.id AND runs.parent <> ''
)
UPDATE runs SET root = tree.root FROM tree WHERE tree.id = runs.id;
UPDATE runs SET root = id WHERE root = '';
DROP INDEX runs_parent;
CREATE INDEX runs_tree ON runs (root) WHERE root <> id;

-- The attempts of a job are named JOB.1, JOB.2 and so on.
UPDATE runs SET job = jobs.id FROM jobs
WHERE jobs.id = substr(rtrim(runs.root, '0123456789'), 1, length(rtrim(runs.root, '0123456789')) - 1)
	AND jobs.id || '.' || CAST(substr(runs.root, length(jobs.id) + 2) AS INTEGER) = runs.root
	AND CAST(substr(runs.root, length(jobs.id) + 2) AS INTEGER) BETWEEN 1 AND jobs.attempts;

-- The lease of a tree lasts as long as any that its runs had, and its epoch is above none of theirs.
CREATE TEMP TABLE leases AS
	SELECT root, job, max(epoch) AS epoch, max(iif(owner <> '' AND state IN ('running', 'waiting'), expires, -62135596800000000)) AS expires,
		coalesce(max(iif(id = root AND state IN ('running', 'waiting'), owner, '')), '') AS owner,
		coalesce(max(iif(state IN ('running', 'waiting'), owner, '')), '') AS any_owner
	FROM runs GROUP BY root, job;
UPDATE jobs SET epoch = max(jobs.epoch, l.epoch), lease = max(jobs.lease, l.expires),
	owner = coalesce(nullif(jobs.owner, ''), nullif(l.owner, ''), l.any_owner)
FROM leases AS l WHERE l.job = jobs.id AND l.root = jobs.run AND jobs.state IN ('running', 'waiting');
UPDATE runs SET owner = '', expires = -62135596800000000
WHERE owner <> '' AND (root <> id OR EXISTS (SELECT 1 FROM jobs WHERE jobs.id = runs.job AND jobs.run = runs.root AND jobs.state IN ('queued', 'running', 'waiting')));
UPDATE runs SET epoch = max(runs.epoch, l.epoch), expires = l.expires, owner = coalesce(nullif(l.owner, ''), l.any_owner)
FROM leases AS l WHERE l.root = runs.id AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = runs.job AND jobs.run = runs.root AND jobs.state IN ('queued', 'running', 'waiting'));
DROP TABLE leases;

-- A run as it is read: with the lease of its tree. One that has ended has none, though its tree may go on.
CREATE VIEW heads AS
SELECT r.n, r.id, r.agent, r.parent, r.root, r.job, r.title, r.summary, r.state, r.input_hash, r.created, r.updated, r.seq,
	CASE WHEN r.state NOT IN ('running', 'waiting') THEN '' ELSE coalesce(j.owner, top.owner, r.owner) END AS owner,
	CASE WHEN r.state NOT IN ('running', 'waiting') THEN r.epoch ELSE coalesce(j.epoch, top.epoch, r.epoch) END AS epoch,
	CASE WHEN r.state NOT IN ('running', 'waiting') THEN -62135596800000000 ELSE coalesce(j.lease, top.expires, r.expires) END AS expires
FROM runs AS r
	LEFT JOIN runs AS top ON top.id = r.root AND r.root <> r.id
	LEFT JOIN jobs AS j ON j.id = r.job AND r.job <> '' AND j.run = r.root AND j.state IN ('queued', 'running', 'waiting');
