-- Claims keys again that claim.sql found to have rows: one's own claim, or DONE past its retention. Answered by the insert id, which no flag of the connection changes:
--   0 inserted   1 another's live claim   2 DONE   3 an expired claim, to be taken over by another statement
--   4 one's own claim   5 one's own claim, taken over before   6 DONE past its retention, claimed anew
-- Only of a single row. Of several, 0 says that each was inserted; otherwise they are read.
--
-- Assignments see those before them, so each is made while what it depends on still stands.
INSERT INTO {table}
  (digest, status, owner, origin, claimed_at, expires_at, grace, done_at, attempt, fingerprint,
   key_kind, consumer_group, topic, tag, key_value, message_id)
VALUES {rows}(?, 1, ?, {nobody}, {now}, {now} + ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?){end} {as new}
ON DUPLICATE KEY UPDATE
  grace = CASE
    WHEN {table}.status = 1 AND {table}.owner = new.owner THEN new.grace + 0 * LAST_INSERT_ID(IF({table}.origin = {nobody}, 4, 5))
    WHEN {table}.status = 1 AND {table}.expires_at > new.claimed_at THEN {table}.grace + 0 * LAST_INSERT_ID(1)
    WHEN {table}.status = 1 THEN {table}.grace + 0 * LAST_INSERT_ID(3)
    WHEN {table}.expires_at > new.claimed_at THEN {table}.grace + 0 * LAST_INSERT_ID(2)
    ELSE new.grace + 0 * LAST_INSERT_ID(6)
  END,
  origin = IF({table}.status = 2 AND {table}.expires_at <= new.claimed_at, {nobody}, {table}.origin),
  owner = IF({table}.status = 2 AND {table}.expires_at <= new.claimed_at, new.owner, {table}.owner),
  -- From here on the claim is the requester's if the owner is, unless that is the owner who made it DONE.
  status = IF({table}.owner = new.owner AND {table}.expires_at <= new.claimed_at, 1, {table}.status),
  done_at = IF({table}.owner = new.owner AND {table}.status = 1, 0, {table}.done_at),
  attempt = IF({table}.owner = new.owner AND {table}.status = 1, new.attempt, {table}.attempt),
  fingerprint = IF({table}.owner = new.owner AND {table}.status = 1, new.fingerprint, {table}.fingerprint),
  message_id = IF({table}.owner = new.owner AND {table}.status = 1, new.message_id, {table}.message_id),
  claimed_at = IF({table}.owner = new.owner AND {table}.status = 1, new.claimed_at, {table}.claimed_at),
  expires_at = IF({table}.owner = new.owner AND {table}.status = 1, new.expires_at, {table}.expires_at)
