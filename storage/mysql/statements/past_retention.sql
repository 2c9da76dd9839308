-- The keys that are DONE past their retention, the longest past first.
SELECT digest
FROM {table} FORCE INDEX (sweep)
WHERE status = 2 AND expires_at <= {now}
ORDER BY expires_at
LIMIT ?
