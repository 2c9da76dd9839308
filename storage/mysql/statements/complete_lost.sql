-- Makes one key DONE whatever it is, but leaves alone what is DONE already. Answered by the insert id:
--   0 inserted   1 the owner's claim   2 DONE already   3 another's claim, or DONE past its retention
INSERT INTO {table}
  (digest, status, owner, origin, claimed_at, expires_at, grace, done_at, attempt, fingerprint,
   key_kind, consumer_group, topic, tag, key_value, message_id)
VALUES {rows}(?, 2, ?, {nobody}, {now}, {now} + ?, 0, {now}, ?, ?, ?, ?, ?, ?, ?, ?){end} {as new}
ON DUPLICATE KEY UPDATE
  grace = CASE
    WHEN {table}.status = 2 AND {table}.expires_at > new.done_at THEN {table}.grace + 0 * LAST_INSERT_ID(2)
    WHEN {table}.status = 1 AND {table}.owner = new.owner THEN 0 * LAST_INSERT_ID(1)
    ELSE 0 * LAST_INSERT_ID(3)
  END,
  origin = IF({table}.status = 1 OR {table}.expires_at <= new.done_at, new.origin, {table}.origin),
  owner = IF({table}.status = 1 OR {table}.expires_at <= new.done_at, new.owner, {table}.owner),
  done_at = IF({table}.status = 1 OR {table}.expires_at <= new.done_at, new.done_at, {table}.done_at),
  attempt = IF({table}.status = 1 OR {table}.expires_at <= new.done_at, new.attempt, {table}.attempt),
  fingerprint = IF({table}.status = 1 OR {table}.expires_at <= new.done_at, new.fingerprint, {table}.fingerprint),
  message_id = IF({table}.status = 1 OR {table}.expires_at <= new.done_at, new.message_id, {table}.message_id),
  expires_at = IF({table}.status = 1 OR {table}.expires_at <= new.done_at, new.expires_at, {table}.expires_at),
  status = 2
