-- The state table of rmqdedup, format 1. One row is one key: one piece of work of one consumer group.
--
-- Store.Migrate runs this statement; a DBA may as well. Another name for the table is fine (Config.Table). All times are
-- milliseconds since 1970-01-01 UTC by this server's clock. Text is kept as bytes, so that nothing is folded, padded or
-- refused: SELECT CONVERT(key_value USING utf8mb4) shows it.
CREATE TABLE IF NOT EXISTS rmqdedup_state (
  digest         BINARY(32)       NOT NULL COMMENT 'SHA-256 of the key, its parts each after its length',
  status         TINYINT UNSIGNED NOT NULL COMMENT '1 CONSUMING, 2 DONE',
  owner          BINARY(16)       NOT NULL COMMENT 'of the claim; of what is DONE, who finished it',
  origin         BINARY(16)       NOT NULL COMMENT 'of a claim: the owner it was taken over from, or zeros; of what is DONE: a number of the statement that made it so',
  claimed_at     BIGINT           NOT NULL COMMENT 'when it was claimed',
  expires_at     BIGINT           NOT NULL COMMENT 'the deadline of the claim; the end of the retention of what is DONE',
  grace          BIGINT           NOT NULL COMMENT 'ms after its deadline in which an expired claim is kept for a checker',
  done_at        BIGINT           NOT NULL COMMENT 'when it became DONE, or 0',
  attempt        INT UNSIGNED     NOT NULL COMMENT 'redeliveries of the message before that one',
  fingerprint    BIGINT           NOT NULL COMMENT '64-bit xxHash of the body',
  key_kind       TINYINT UNSIGNED NOT NULL COMMENT '1 a business key, 2 a message ID',
  consumer_group VARBINARY(1024)  NOT NULL,
  topic          VARBINARY(1024)  NOT NULL,
  tag            VARBINARY(1024)  NOT NULL,
  key_value      VARBINARY(1024)  NOT NULL COMMENT 'empty if it was too long to be kept',
  message_id     VARBINARY(1024)  NOT NULL,
  PRIMARY KEY (digest),
  KEY sweep (status, expires_at)
) ENGINE=InnoDB COMMENT='rmqdedup state table, format 1'
