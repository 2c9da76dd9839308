-- Makes DONE the claims that are still their owners'. A row that matches always changes, so the number of
-- affected rows is the same whatever clientFoundRows is. If it is below the number of several keys, those with the
-- stamp are the ones.
UPDATE {table} FORCE INDEX (PRIMARY)
SET done_at = {now}, expires_at = {now} + ?, status = 2{stamp}
WHERE digest IN ({keys}) AND status = 1 AND owner = {of key}
