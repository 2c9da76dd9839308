-- The last key of a page of the table in the order of its primary key.
SELECT digest
FROM {table} FORCE INDEX (PRIMARY)
WHERE digest > ?
ORDER BY digest
LIMIT 1 OFFSET ?
