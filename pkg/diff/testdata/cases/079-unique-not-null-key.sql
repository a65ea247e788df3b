-- case: no primary key, but a unique key of NOT NULL columns
-- about: such a key tells rows apart as well as a primary one. Of several, tools choose different ones (the first defined, the one of the smallest types), which must not matter. Keys change, values of the other unique key are swapped, and text in a key is one key in two spellings; run with a small chunk size.
-- engine: both
-- expect: equal
-- section: schema
CREATE TABLE uniq_pair (v INT NULL, b VARCHAR(20) COLLATE utf8mb4_0900_ai_ci NOT NULL, a INT NOT NULL, note VARCHAR(40), UNIQUE KEY z (a, b), UNIQUE KEY maybe (v)) ENGINE=InnoDB;
CREATE TABLE uniq_two (name VARCHAR(20) COLLATE utf8mb4_bin NOT NULL, id INT NOT NULL, v INT, UNIQUE KEY zz (name), UNIQUE KEY aa (id)) ENGINE=InnoDB;
CREATE TABLE uniq_bytes (k VARBINARY(10) NOT NULL, d DATETIME(3) NOT NULL, v INT, doc JSON, UNIQUE KEY `k``d` (k, d DESC), KEY v (v)) ENGINE=InnoDB;
CREATE TABLE uniq_auto (n BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, v VARCHAR(10), UNIQUE KEY n (n)) ENGINE=InnoDB;
CREATE TABLE digit (d INT NOT NULL, UNIQUE KEY d (d)) ENGINE=InnoDB;
-- section: rows
INSERT INTO digit VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9);
INSERT INTO uniq_pair SELECT NULLIF(x.d * 100 + y.d * 10 + z.d, 50), CONCAT('name ', z.d), x.d * 10 + y.d, 'first' FROM digit x, digit y, digit z;
INSERT INTO uniq_two SELECT CONCAT('n', x.d, y.d), 99 - x.d * 10 - y.d, x.d FROM digit x, digit y;
INSERT INTO uniq_bytes SELECT UNHEX(CONCAT('00', x.d, '0FF0', y.d)), '2024-01-01 00:00:00.001' + INTERVAL y.d DAY, x.d, '{"a": 1}' FROM digit x, digit y;
INSERT INTO uniq_bytes VALUES (X'', '2024-01-01 00:00:00', NULL, NULL), (X'', '2024-01-01 00:00:00.001', NULL, '[]'), (X'00', '2024-01-01 00:00:00', NULL, 'null');
INSERT INTO uniq_auto (v) VALUES ('a'), ('b'), ('c');
-- section: changes
UPDATE uniq_pair SET note = 'touched' WHERE a BETWEEN 10 AND 12;
UPDATE uniq_pair SET b = UPPER(b) WHERE a = 20;
UPDATE uniq_pair SET a = a + 1000 WHERE a = 30;
DELETE FROM uniq_pair WHERE a = 40 AND b > 'name 4';
UPDATE uniq_pair SET v = -v WHERE a IN (60, 61);
UPDATE uniq_two SET id = id + 1000;
UPDATE uniq_two SET id = 3099 - id;
UPDATE uniq_two SET name = CONCAT('m', SUBSTRING(name, 2)) WHERE v = 3;
REPLACE INTO uniq_two VALUES ('n00', 1500, 77), ('n01', 2001, 78);
UPDATE uniq_bytes SET v = 100, doc = '{"a": 2}' WHERE v = 4;
UPDATE uniq_bytes SET k = X'0001' WHERE k = X'';
DELETE FROM uniq_bytes WHERE v = 9;
INSERT INTO uniq_auto (v) VALUES ('d');
UPDATE uniq_auto SET n = n + 100 WHERE v = 'b';
DELETE FROM uniq_auto WHERE v = 'a';
DELETE FROM digit WHERE d > 7;
