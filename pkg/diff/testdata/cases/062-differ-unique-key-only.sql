-- case: rows of a table that has only a unique key differ
-- about: changed, missing and extra rows of a table without a primary key, each reported once by the unique key, also where its text is spelled otherwise.
-- engine: both
-- expect: differ uniq_key 6
-- section: schema
CREATE TABLE uniq_key (v INT NULL, b VARCHAR(20) COLLATE utf8mb4_0900_ai_ci NOT NULL, a INT NOT NULL, UNIQUE KEY z (a, b)) ENGINE=InnoDB;
CREATE TABLE digit (d INT NOT NULL, UNIQUE KEY d (d)) ENGINE=InnoDB;
-- section: rows
INSERT INTO digit VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9);
INSERT INTO uniq_key SELECT z.d, CONCAT('name ', z.d), x.d * 10 + y.d FROM digit x, digit y, digit z;
-- section: changes
UPDATE uniq_key SET v = v + 1 WHERE a = 7;
-- section: tamper
UPDATE uniq_key SET v = NULL WHERE a = 3 AND b = 'name 3';
UPDATE uniq_key SET b = 'Name 5' WHERE a = 55 AND b = 'name 5';
DELETE FROM uniq_key WHERE a = 99 AND b = 'name 9';
INSERT INTO uniq_key VALUES (1, 'name 1', -5), (1, 'name 11', 55), (1, '', 1000);
