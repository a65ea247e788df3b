-- The sequence's only row. Run it once, through vtgate, when the table is there.
INSERT INTO messages_seq (id, next_id, cache) VALUES (0, 1, 1000);
