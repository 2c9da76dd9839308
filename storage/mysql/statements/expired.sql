-- The claims that expired first, those within their grace among them if the first argument is 1.
SELECT {columns}, {now}
FROM {table} FORCE INDEX (sweep)
WHERE status = 1 AND expires_at <= {now} AND (? = 1 OR expires_at + grace <= {now})
ORDER BY expires_at
LIMIT ?
