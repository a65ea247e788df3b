-- The tables of one shard of the chat product. Each statement ends with ";" at a line's end.

CREATE TABLE IF NOT EXISTS teams (
  team_id    BIGINT UNSIGNED NOT NULL,
  name       VARCHAR(120) NOT NULL,
  domain     VARCHAR(63) CHARACTER SET ascii COLLATE ascii_general_ci DEFAULT NULL,
  plan       ENUM('free','pro','business','enterprise') NOT NULL DEFAULT 'free',
  features   SET('sso','guests','shared_channels','dlp','huddles') NOT NULL DEFAULT '',
  seats      SMALLINT UNSIGNED NOT NULL DEFAULT 10,
  region     CHAR(2) CHARACTER SET latin1 COLLATE latin1_general_cs NOT NULL DEFAULT 'us',
  created_at DATETIME(6) NOT NULL,
  deleted_at DATETIME(6) DEFAULT NULL,
  is_active  TINYINT(1) GENERATED ALWAYS AS (deleted_at IS NULL) VIRTUAL,
  PRIMARY KEY (team_id),
  UNIQUE KEY domain (domain)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS channels (
  team_id    BIGINT UNSIGNED NOT NULL,
  channel_id BIGINT UNSIGNED NOT NULL,
  name       VARCHAR(80) COLLATE utf8mb4_bin NOT NULL,
  topic      TEXT,
  is_private TINYINT(1) NOT NULL DEFAULT 0,
  creator_id BIGINT UNSIGNED NOT NULL,
  created_at INT UNSIGNED NOT NULL,
  prefs      JSON DEFAULT NULL,
  PRIMARY KEY (team_id, channel_id),
  UNIQUE KEY team_name (team_id, name),
  KEY channel (channel_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS messages (
  id          BIGINT UNSIGNED NOT NULL COMMENT 'from the application, time in the upper bits',
  team_id     BIGINT UNSIGNED NOT NULL,
  channel_id  BIGINT UNSIGNED NOT NULL,
  user_id     BIGINT UNSIGNED NOT NULL,
  ts          DECIMAL(16,6) NOT NULL,
  thread_ts   DECIMAL(16,6) DEFAULT NULL,
  version     INT UNSIGNED NOT NULL DEFAULT 1,
  body        TEXT NOT NULL,
  attachments JSON DEFAULT NULL,
  body_length INT UNSIGNED GENERATED ALWAYS AS (CHAR_LENGTH(body)) STORED,
  PRIMARY KEY (id),
  KEY history (team_id, channel_id, ts DESC),
  KEY beginning (body(16))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

CREATE TABLE IF NOT EXISTS channel_members (
  channel_id BIGINT UNSIGNED NOT NULL,
  user_id    BIGINT UNSIGNED NOT NULL,
  team_id    BIGINT UNSIGNED NOT NULL,
  last_read  DECIMAL(16,6) NOT NULL DEFAULT 0,
  muted      BIT(1) NOT NULL DEFAULT b'0',
  joined_at  TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (channel_id, user_id),
  KEY of_user (team_id, user_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS files (
  id         BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  team_id    BIGINT UNSIGNED NOT NULL,
  user_id    BIGINT UNSIGNED NOT NULL,
  client_ref VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin DEFAULT NULL COMMENT 'the uploading client''s own name for the file',
  version    INT UNSIGNED NOT NULL DEFAULT 1,
  name       VARCHAR(255) NOT NULL,
  mime       VARCHAR(100) CHARACTER SET latin1 NOT NULL,
  size       INT UNSIGNED NOT NULL,
  sha256     BINARY(32) DEFAULT NULL,
  preview    BLOB,
  suffix     VARCHAR(16) GENERATED ALWAYS AS (LOWER(SUBSTRING_INDEX(RIGHT(name, 16), '.', -1))) VIRTUAL,
  PRIMARY KEY (id),
  KEY of_team (team_id, id DESC),
  KEY by_ref (client_ref)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;

CREATE TABLE IF NOT EXISTS reactions (
  message_id BIGINT UNSIGNED NOT NULL,
  user_id    BIGINT UNSIGNED NOT NULL,
  emoji      VARCHAR(64) COLLATE utf8mb4_bin NOT NULL,
  team_id    BIGINT UNSIGNED NOT NULL,
  added_at   INT UNSIGNED NOT NULL,
  PRIMARY KEY (message_id, user_id, emoji),
  KEY of_team (team_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS team_settings (
  team_id    BIGINT UNSIGNED NOT NULL,
  name       VARCHAR(64) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
  value      JSON NOT NULL,
  note       TINYTEXT CHARACTER SET latin1 COLLATE latin1_german1_ci,
  updated_at TIMESTAMP(3) NULL DEFAULT NULL,
  PRIMARY KEY (team_id, name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS audit_log (
  id         BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  team_id    BIGINT UNSIGNED NOT NULL,
  client_ref VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin DEFAULT NULL,
  at         DATETIME(6) NOT NULL,
  actor_id   BIGINT NOT NULL,
  action     VARCHAR(40) CHARACTER SET latin1 COLLATE latin1_swedish_ci NOT NULL,
  ip         VARBINARY(16) DEFAULT NULL,
  detail     MEDIUMTEXT,
  PRIMARY KEY (id),
  KEY of_team (team_id, at DESC, id DESC),
  KEY by_ref (client_ref)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS invites (
  id          INT UNSIGNED NOT NULL AUTO_INCREMENT,
  team_id     BIGINT UNSIGNED NOT NULL,
  email       VARCHAR(190) COLLATE utf8mb4_general_ci NOT NULL,
  token       CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  accepted_by BIGINT UNSIGNED DEFAULT NULL,
  expires_on  DATE DEFAULT NULL,
  PRIMARY KEY (id),
  UNIQUE KEY token (token),
  UNIQUE KEY accepted (team_id, accepted_by)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS api_tokens (
  token_id  BINARY(16) NOT NULL,
  team_id   BIGINT UNSIGNED NOT NULL,
  name      VARCHAR(100) NOT NULL,
  scopes    SET('read','write','admin','files') NOT NULL DEFAULT 'read',
  quota     DECIMAL(20,4) NOT NULL DEFAULT 0,
  version   INT UNSIGNED NOT NULL DEFAULT 1,
  last_used TIMESTAMP NULL DEFAULT NULL,
  PRIMARY KEY (token_id),
  KEY of_team (team_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS presence (
  user_id   BIGINT UNSIGNED NOT NULL,
  team_id   BIGINT UNSIGNED NOT NULL,
  status    ENUM('active','away','dnd') NOT NULL DEFAULT 'away',
  latitude  DOUBLE DEFAULT NULL,
  longitude DOUBLE DEFAULT NULL,
  load_avg  FLOAT DEFAULT NULL,
  quiet_at  TIME DEFAULT NULL,
  PRIMARY KEY (user_id),
  KEY of_team (team_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS emoji (
  team_id BIGINT UNSIGNED NOT NULL,
  name    VARCHAR(100) COLLATE utf8mb4_bin NOT NULL,
  image   MEDIUMBLOB NOT NULL,
  PRIMARY KEY (team_id, name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS bookmarks (
  user_id BIGINT UNSIGNED NOT NULL,
  place   SMALLINT NOT NULL,
  team_id BIGINT UNSIGNED NOT NULL,
  url     TEXT CHARACTER SET latin1 NOT NULL,
  title   VARCHAR(200) COLLATE utf8mb4_unicode_ci DEFAULT NULL,
  PRIMARY KEY (user_id, place DESC),
  KEY url (url(40)),
  KEY of_team (team_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS counters (
  team_id BIGINT UNSIGNED NOT NULL,
  name    VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  value   BIGINT NOT NULL DEFAULT 0,
  highest BIGINT UNSIGNED NOT NULL DEFAULT 0,
  version INT UNSIGNED NOT NULL DEFAULT 1,
  PRIMARY KEY (team_id, name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS handles (
  handle  VARCHAR(80) COLLATE utf8mb4_0900_as_cs NOT NULL,
  team_id BIGINT UNSIGNED NOT NULL,
  user_id BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (handle),
  KEY of_team (team_id, user_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_as_cs;

CREATE TABLE IF NOT EXISTS billing (
  team_id  BIGINT UNSIGNED NOT NULL,
  period   YEAR NOT NULL,
  quarter  TINYINT UNSIGNED NOT NULL,
  amount   DECIMAL(30,10) NOT NULL,
  rate     FLOAT NOT NULL,
  tax      DOUBLE NOT NULL,
  flags    BIT(12) NOT NULL DEFAULT b'0',
  paid_on  DATE DEFAULT NULL,
  paid_at  TIME(3) DEFAULT NULL,
  contact  VARCHAR(120) CHARACTER SET latin1 DEFAULT NULL,
  balance  MEDIUMINT NOT NULL DEFAULT 0,
  total    DECIMAL(32,10) GENERATED ALWAYS AS (amount + balance) STORED,
  PRIMARY KEY (team_id, period, quarter)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
