-- Takes over expired claims from the owners that were read. The row always changes.
UPDATE {table} FORCE INDEX (PRIMARY)
SET origin = owner, owner = {of key}, claimed_at = {now}, expires_at = {now} + ?, grace = ?,
    attempt = {of key}, fingerprint = {of key}, message_id = {of key}
WHERE digest IN ({keys}) AND status = 1 AND expires_at <= {now} AND owner = {of key}
