-- Removes rows that are as they were read, and no live claims.
DELETE s FROM {table} s FORCE INDEX (PRIMARY)
WHERE s.digest IN ({keys}) AND (s.status = 2 OR s.expires_at <= {now}) 
  AND s.owner = {of key} AND s.expires_at = {of key}
