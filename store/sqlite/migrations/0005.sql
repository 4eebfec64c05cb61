-- How often a worker was lost while the job ran; before this schema that counted as a failure.
ALTER TABLE jobs ADD COLUMN losses INTEGER NOT NULL DEFAULT 0;
