-- case: no primary key, a unique key over a generated column beside one over plain columns
-- about: a tool that takes the key of the smallest type for the row's takes the generated column, which it cannot write; the plain key is right.
-- engine: both
-- expect: equal
-- section: schema
CREATE TABLE uniq_gen (name VARCHAR(20) NOT NULL, v INT NOT NULL, g TINYINT AS (v % 100) STORED NOT NULL, note INT, UNIQUE KEY name (name), UNIQUE KEY g (g)) ENGINE=InnoDB;
-- section: rows
INSERT INTO uniq_gen (name, v, note) VALUES ('a', 1, 1), ('b', 2, 2), ('c', 3, 3), ('d', 4, 4);
-- section: changes
UPDATE uniq_gen SET note = 20 WHERE name = 'b';
UPDATE uniq_gen SET v = 105 WHERE name = 'c';
DELETE FROM uniq_gen WHERE name = 'd';
INSERT INTO uniq_gen (name, v, note) VALUES ('e', 4, 5);
