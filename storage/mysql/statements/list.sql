-- A group's rows in a page of the table: after the first key, up to and with the second.
SELECT {columns}, {now}
FROM {table} FORCE INDEX (PRIMARY)
WHERE digest > ? AND digest <= ? AND consumer_group = ?
ORDER BY digest
