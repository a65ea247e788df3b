-- case: table without any key
-- about: equal rows cannot be told apart; a XOR would cancel the pair that the target has more, and the one that it has less.
-- engine: both
-- expect: differ keyless 4
-- section: schema
CREATE TABLE keyless (a INT, b VARCHAR(10)) ENGINE=InnoDB;
CREATE TABLE keyed (id INT NOT NULL PRIMARY KEY) ENGINE=InnoDB;
-- section: rows
INSERT INTO keyless VALUES (1, 'x'), (1, 'x'), (1, 'x'), (2, 'y'), (NULL, NULL), (3, ''), (3, NULL);
INSERT INTO keyed VALUES (1);
-- section: changes
DELETE FROM keyless WHERE a = 1 LIMIT 1;
INSERT INTO keyless VALUES (2, 'y');
-- section: tamper
DELETE FROM keyless WHERE a = 2;
INSERT INTO keyless VALUES (1, 'x'), (1, 'x');
