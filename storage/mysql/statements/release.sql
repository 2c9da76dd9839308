-- Removes the claims that are still their owners'.
DELETE s FROM {table} s FORCE INDEX (PRIMARY)
WHERE s.digest IN ({keys}) AND s.status = 1 AND s.owner = {of key}
