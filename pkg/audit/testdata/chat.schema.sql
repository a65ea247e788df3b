-- as mysqldump --no-data writes it
/*!40101 SET @saved_cs_client = @@character_set_client */;
CREATE TABLE `messages` (
  `id` bigint unsigned NOT NULL,
  `channel_id` bigint unsigned NOT NULL,
  `user_id` bigint unsigned NOT NULL,
  `client_id` varchar(64) NOT NULL,
  `ts` datetime(6) NOT NULL,
  `text` text,
  PRIMARY KEY (`id`),
  KEY `channel_ts` (`channel_id`,`ts`)
) ENGINE=InnoDB;
CREATE TABLE `reactions` (
  `channel_id` bigint unsigned NOT NULL,
  `message_id` bigint unsigned NOT NULL,
  `user_id` bigint unsigned NOT NULL,
  `name` varchar(64) NOT NULL,
  PRIMARY KEY (`channel_id`,`message_id`,`user_id`,`name`)
) ENGINE=InnoDB;
CREATE TABLE `channel_members` (
  `user_id` bigint unsigned NOT NULL,
  `channel_id` bigint unsigned NOT NULL,
  `joined` datetime NOT NULL,
  PRIMARY KEY (`user_id`,`channel_id`),
  UNIQUE KEY `channel_user` (`channel_id`,`user_id`)
) ENGINE=InnoDB;
CREATE TABLE `emoji` (
  `name` varchar(64) NOT NULL,
  `url` varchar(255) NOT NULL,
  PRIMARY KEY (`name`)
) ENGINE=InnoDB;
