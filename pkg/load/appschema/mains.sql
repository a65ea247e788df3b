-- The tables of mains: which shard a team lives on, and where a shard's sides are served.

CREATE TABLE IF NOT EXISTS teams (
  team_id BIGINT UNSIGNED NOT NULL,
  shard   SMALLINT UNSIGNED NOT NULL,
  PRIMARY KEY (team_id),
  KEY of_shard (shard, team_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE IF NOT EXISTS shards (
  shard   SMALLINT UNSIGNED NOT NULL,
  side    CHAR(1) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  host    VARCHAR(255) NOT NULL,
  port    SMALLINT UNSIGNED NOT NULL,
  db_name VARCHAR(64) NOT NULL,
  PRIMARY KEY (shard, side)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
