-- Removes those of the keys that are still DONE past their retention.
DELETE s FROM {table} s FORCE INDEX (PRIMARY)
WHERE s.digest IN ({keys}) AND s.status = 2 AND s.expires_at <= {now}
