-- Identifies the database in the lock files of roots that other databases record, too.
ALTER TABLE totals ADD COLUMN database_id INTEGER NOT NULL DEFAULT 0;
UPDATE totals SET database_id = random();
