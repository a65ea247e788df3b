-- Who is where, from the channel's side: a copy of membership_by_user.user_channels. Nobody but its
-- stream writes here.
CREATE TABLE channel_members (
  channel_id BIGINT UNSIGNED NOT NULL,
  user_id BIGINT UNSIGNED NOT NULL,
  team_id BIGINT UNSIGNED NOT NULL,
  role VARCHAR(16) NOT NULL DEFAULT 'member',
  joined_at DATETIME(6) NOT NULL,
  PRIMARY KEY (channel_id, user_id),
  KEY role (channel_id, role)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
