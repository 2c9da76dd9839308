-- Ends live claims and gives each to a fresh owner whom nobody knows. The row always changes.
--
-- A statement's time is that of its start. One that waits for this one's lock, a second at most, judges the row by a time before
-- this one's; so that it finds the deadline past all the same, that is set two seconds back.
UPDATE {table} FORCE INDEX (PRIMARY)
SET owner = {of key}, expires_at = {now} - 2000
WHERE digest IN ({keys}) AND status = 1 AND expires_at > {now} AND owner = {of key}
