-- Reads rows, and the server's time.
SELECT {columns}, {now}
FROM {table} FORCE INDEX (PRIMARY)
WHERE digest IN ({keys})
