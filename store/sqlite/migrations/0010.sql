-- The first events of an imported run were recorded by another store: what was decided there was not decided here.
ALTER TABLE runs ADD COLUMN imported INTEGER NOT NULL DEFAULT 0; -- how many events that are

DROP VIEW heads;
CREATE VIEW heads AS
SELECT r.n, r.id, r.agent, r.parent, r.root, r.job, r.title, r.summary, r.state, r.input_hash, r.created, r.updated, r.seq, r.imported,
	CASE WHEN r.state NOT IN ('running', 'waiting') THEN '' ELSE coalesce(j.owner, top.owner, r.owner) END AS owner,
	CASE WHEN r.state NOT IN ('running', 'waiting') THEN r.epoch ELSE coalesce(j.epoch, top.epoch, r.epoch) END AS epoch,
	CASE WHEN r.state NOT IN ('running', 'waiting') THEN -62135596800000000 ELSE coalesce(j.lease, top.expires, r.expires) END AS expires
FROM runs AS r
	LEFT JOIN runs AS top ON top.id = r.root AND r.root <> r.id
	LEFT JOIN jobs AS j ON j.id = r.job AND r.job <> '' AND j.run = r.root AND j.state IN ('queued', 'running', 'waiting');

-- Runs that were imported before have no mark. They are known by their first events, which are older than the run, or by a
-- question in what was written under the first lease that this store has never had. So are forks, whose first events are
-- copies, but they were written here if their run.forked was; then they are as the run that they were copied from, and
-- imported if that is gone. The attempts of jobs were not imported.
CREATE TEMP TABLE first AS
	SELECT r.n, r.id, r.created, e.epoch, e.time, json_extract(e.body, '$.fork') AS source,
		(SELECT max(f.seq) FROM events AS f WHERE f.run = r.n AND f.type = 'run.forked' AND f.epoch = e.epoch AND f.time >= r.created - 60000000) AS forked
	FROM runs AS r JOIN events AS e ON e.run = r.n AND e.seq = 1
	WHERE r.job = '' AND e.body <> '';
CREATE TEMP TABLE foreigners AS
	WITH RECURSIVE of (id) AS (
		SELECT id FROM first WHERE (forked IS NULL OR coalesce(source, '') = '')
			AND (time < created - 60000000
				OR EXISTS (SELECT 1 FROM events AS q WHERE q.run = first.n AND q.epoch = first.epoch AND q.type IN ('ask.opened', 'ask.settled')
					AND q.key NOT IN (SELECT id FROM asks WHERE run = first.id)))
		UNION
		SELECT id FROM first WHERE forked IS NOT NULL AND source <> '' AND source NOT IN (SELECT id FROM runs)
		UNION
		SELECT first.id FROM of JOIN first ON first.source = of.id AND first.forked IS NOT NULL
	)
	SELECT id FROM of;
UPDATE runs SET imported = (SELECT coalesce(first.forked, (SELECT max(e.seq) FROM events AS e WHERE e.run = runs.n AND e.epoch = first.epoch))
		FROM first WHERE first.n = runs.n)
	WHERE id IN (SELECT id FROM foreigners);
-- What such a run goes on with asks anew.
DELETE FROM asks WHERE id IN (SELECT e.key FROM runs AS r JOIN events AS e ON e.run = r.n AND e.seq <= r.imported AND e.type = 'ask.opened'
	WHERE r.imported > 0 AND r.state IN ('running', 'waiting') AND asks.run = r.id);
-- No run goes on with those that it had started elsewhere.
UPDATE runs SET state = 'cancelled' WHERE imported > 0 AND root <> id AND state IN ('running', 'waiting');
DROP TABLE foreigners;
DROP TABLE first;
