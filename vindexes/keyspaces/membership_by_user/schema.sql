-- Who is where, from the user's side. This is the truth: every join, leave and change of role is
-- written here, in one row on one shard. membership_by_channel is a copy that a stream keeps.
CREATE TABLE user_channels (
  user_id BIGINT UNSIGNED NOT NULL,
  channel_id BIGINT UNSIGNED NOT NULL,
  team_id BIGINT UNSIGNED NOT NULL,
  role VARCHAR(16) NOT NULL DEFAULT 'member',
  joined_at DATETIME(6) NOT NULL,
  PRIMARY KEY (user_id, channel_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

-- How far a user has read: written at every look into a channel, and wanted by the user only. It is
-- a table of its own so that the copy by channel need not follow these writes.
CREATE TABLE read_marks (
  user_id BIGINT UNSIGNED NOT NULL,
  channel_id BIGINT UNSIGNED NOT NULL,
  message_id BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (user_id, channel_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
