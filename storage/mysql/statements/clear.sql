-- Removes expired claims whose owner and deadline are still as they were read.
DELETE s FROM {table} s FORCE INDEX (PRIMARY)
WHERE s.digest IN ({keys}) AND s.status = 1 AND s.expires_at <= {now}
  AND s.owner = {of key} AND s.expires_at = {of key}
