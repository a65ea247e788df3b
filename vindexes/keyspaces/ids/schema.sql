-- Sequences: AUTO_INCREMENT counts on each shard by itself. vtgate's tablet takes cache ids at once;
-- those of a tablet that restarts are skipped, never given twice.
CREATE TABLE messages_seq (
  id BIGINT NOT NULL,
  next_id BIGINT NOT NULL,
  cache BIGINT NOT NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB COMMENT='vitess_sequence';
