-- A channel's messages are on one shard, in the order of their ids. An id alone finds no message: links
-- and references carry the channel, so no lookup vindex is paid for.
CREATE TABLE messages (
  channel_id BIGINT UNSIGNED NOT NULL,
  id BIGINT UNSIGNED NOT NULL,
  team_id BIGINT UNSIGNED NOT NULL,
  user_id BIGINT UNSIGNED NOT NULL,
  thread_id BIGINT UNSIGNED NULL,
  -- What the client calls the message. A retried post finds the first one: the key begins with the
  -- channel, so it holds although it is checked on one shard only.
  client_token VARBINARY(36) NOT NULL,
  posted_at DATETIME(6) NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (channel_id, id),
  UNIQUE KEY client_token (channel_id, client_token),
  KEY thread (channel_id, thread_id, id),
  KEY posted_at (posted_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE reactions (
  channel_id BIGINT UNSIGNED NOT NULL,
  message_id BIGINT UNSIGNED NOT NULL,
  user_id BIGINT UNSIGNED NOT NULL,
  emoji VARCHAR(64) NOT NULL,
  PRIMARY KEY (channel_id, message_id, user_id, emoji)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
