-- Claims keys that have no row, a row each, as most have none. Answered by the insert id, which no flag of the connection changes: 0 if
-- each was inserted, 1 if there are some that have a row already. Those rows stay as they are, for acquire.sql and take_over.sql,
-- whose many expressions would cost each claim a tenth more.
INSERT INTO {table}
  (digest, status, owner, origin, claimed_at, expires_at, grace, done_at, attempt, fingerprint,
   key_kind, consumer_group, topic, tag, key_value, message_id)
VALUES {rows}(?, 1, ?, {nobody}, {now}, {now} + ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?){end}
ON DUPLICATE KEY UPDATE grace = {table}.grace + 0 * LAST_INSERT_ID(1)
