-- case: only a unique key with a nullable column
-- about: several rows may hold NULL in the key, so no key tells rows apart; how often each row is there is counted.
-- engine: both
-- expect: differ uniq_null 3
-- section: schema
CREATE TABLE uniq_null (a INT NULL, v VARCHAR(10), UNIQUE KEY ua (a)) ENGINE=InnoDB;
-- section: rows
INSERT INTO uniq_null VALUES (1, 'x'), (NULL, 'y'), (NULL, 'y'), (NULL, 'z');
-- section: changes
UPDATE uniq_null SET v = 'w' WHERE v = 'z';
DELETE FROM uniq_null WHERE v = 'y' LIMIT 1;
-- section: tamper
INSERT INTO uniq_null VALUES (NULL, 'w');
UPDATE uniq_null SET v = 'X' WHERE a = 1;
