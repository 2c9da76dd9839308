-- Which of those rows no transaction holds locked. The locks that it takes end with it.
SELECT digest
FROM {table} FORCE INDEX (PRIMARY)
WHERE digest IN ({keys})
FOR UPDATE SKIP LOCKED
