-- Extends the claims that are still their owners'. One that is renewed twice within a millisecond matches and does not
-- change, so a count below that of the keys is looked into.
UPDATE {table} FORCE INDEX (PRIMARY)
SET expires_at = {now} + ?, grace = ?
WHERE digest IN ({keys}) AND status = 1 AND owner = {of key}
