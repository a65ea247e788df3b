-- Queries that vifl audit and a live vtgate must plan alike, beside those of the keyspaces' own
-- queries.sql. One a line. Sessions have selected no keyspace, and then each one in turn.
SELECT * FROM user_channels WHERE user_id = 1
SELECT * FROM membership_by_user.user_channels WHERE user_id = 1
SELECT * FROM user_channels WHERE user_id = 'U0001'
SELECT * FROM user_channels WHERE user_id = '1'
SELECT * FROM user_channels WHERE user_id = 1.0
SELECT * FROM user_channels WHERE user_id = NULL
SELECT * FROM user_channels WHERE user_id IS NULL
SELECT * FROM user_channels WHERE user_id <=> 1
SELECT * FROM user_channels WHERE user_id IN (1)
SELECT * FROM user_channels WHERE user_id IN (1, 2, 3)
SELECT * FROM user_channels WHERE user_id IN (1, NULL)
SELECT * FROM user_channels WHERE user_id NOT IN (1, 2)
SELECT * FROM user_channels WHERE (user_id, channel_id) IN ((1, 2), (3, 4))
SELECT * FROM user_channels WHERE (user_id, channel_id) = (1, 2)
SELECT * FROM user_channels WHERE user_id = 1 OR user_id = 2
SELECT * FROM user_channels WHERE user_id = 1 OR channel_id = 2
SELECT * FROM user_channels WHERE (user_id = 1 AND channel_id = 2) OR (user_id = 1 AND channel_id = 3)
SELECT * FROM user_channels WHERE user_id BETWEEN 1 AND 2
SELECT * FROM user_channels WHERE user_id > 1
SELECT * FROM user_channels WHERE user_id + 0 = 1
SELECT * FROM user_channels WHERE user_id = 1 + 1
SELECT * FROM user_channels WHERE user_id = channel_id
SELECT * FROM user_channels WHERE 1 = 0
SELECT * FROM user_channels WHERE NOT user_id = 1
SELECT * FROM user_channels WHERE role LIKE 'ad%'
SELECT * FROM user_channels WHERE user_id = (SELECT MAX(user_id) FROM read_marks)
SELECT * FROM user_channels WHERE user_id = 1 AND channel_id IN (SELECT channel_id FROM read_marks WHERE user_id = 1)
SELECT * FROM user_channels WHERE user_id IN (SELECT user_id FROM read_marks WHERE user_id = 1)
SELECT * FROM user_channels WHERE channel_id IN (SELECT channel_id FROM channel_members WHERE channel_id = 1)
SELECT * FROM user_channels c WHERE EXISTS (SELECT 1 FROM read_marks r WHERE r.user_id = c.user_id AND r.channel_id = c.channel_id)
SELECT * FROM user_channels c WHERE c.user_id = 1 AND EXISTS (SELECT 1 FROM read_marks r WHERE r.user_id = c.user_id)
SELECT * FROM user_channels c WHERE NOT EXISTS (SELECT 1 FROM read_marks r WHERE r.channel_id = c.channel_id)
SELECT COUNT(*) FROM user_channels
SELECT COUNT(DISTINCT channel_id) FROM user_channels
SELECT COUNT(*), MIN(joined_at), MAX(joined_at), AVG(channel_id), SUM(channel_id) FROM user_channels
SELECT user_id, COUNT(*) FROM user_channels GROUP BY user_id
SELECT channel_id, COUNT(*) FROM user_channels GROUP BY channel_id
SELECT channel_id, COUNT(*) FROM user_channels GROUP BY channel_id HAVING COUNT(*) > 3 ORDER BY COUNT(*) DESC LIMIT 10
SELECT role, COUNT(*) FROM user_channels GROUP BY role
SELECT role, GROUP_CONCAT(channel_id) FROM user_channels WHERE user_id = 1 GROUP BY role
SELECT role, GROUP_CONCAT(channel_id) FROM user_channels GROUP BY role
SELECT DISTINCT role FROM user_channels
SELECT DISTINCT role, channel_id FROM user_channels ORDER BY role
SELECT ANY_VALUE(role) FROM user_channels
SELECT BIT_XOR(channel_id) FROM user_channels
SELECT STD(channel_id) FROM user_channels
SELECT role, COUNT(*) FROM user_channels GROUP BY role WITH ROLLUP
SELECT role FROM user_channels ORDER BY role
SELECT role FROM user_channels ORDER BY role COLLATE utf8mb4_bin
SELECT role FROM user_channels ORDER BY joined_at DESC, channel_id LIMIT 10
SELECT role FROM user_channels ORDER BY joined_at LIMIT 10 OFFSET 100
SELECT role FROM user_channels LIMIT 10
SELECT role AS r FROM user_channels ORDER BY r
SELECT user_id, role FROM user_channels ORDER BY 2, 1
SELECT role FROM user_channels ORDER BY RAND()
SELECT UPPER(role) FROM user_channels ORDER BY UPPER(role)
SELECT body FROM messages ORDER BY body
SELECT client_token FROM messages ORDER BY client_token
SELECT SQL_CALC_FOUND_ROWS * FROM user_channels WHERE user_id = 1 LIMIT 1
SELECT SQL_CALC_FOUND_ROWS * FROM user_channels LIMIT 1
SELECT FOUND_ROWS()
SELECT LAST_INSERT_ID()
SELECT ROW_COUNT()
SELECT CONNECTION_ID()
SELECT 1
SELECT 1 FROM DUAL
SELECT NOW()
SELECT DATABASE()
SELECT USER()
SELECT VERSION()
SELECT @@version
SELECT @@sql_mode
SELECT @@autocommit
SELECT @a
SELECT @a := 1
SELECT SLEEP(1)
SELECT GET_LOCK('a', 1)
SELECT RELEASE_LOCK('a')
SELECT UUID()
SELECT * FROM user_channels c JOIN read_marks r ON r.user_id = c.user_id AND r.channel_id = c.channel_id
SELECT * FROM user_channels c JOIN read_marks r ON r.user_id = c.user_id WHERE c.user_id = 1
SELECT * FROM user_channels c JOIN read_marks r ON r.channel_id = c.channel_id WHERE c.user_id = 1
SELECT * FROM user_channels c JOIN read_marks r USING (user_id, channel_id) WHERE c.user_id = 1
SELECT * FROM user_channels c, read_marks r WHERE c.user_id = r.user_id AND c.user_id = 1
SELECT * FROM user_channels c NATURAL JOIN read_marks r WHERE c.user_id = 1
SELECT * FROM user_channels c LEFT JOIN read_marks r ON r.user_id = c.user_id AND r.channel_id = c.channel_id
SELECT * FROM user_channels c LEFT JOIN read_marks r ON r.channel_id = c.channel_id
SELECT * FROM user_channels c RIGHT JOIN read_marks r ON r.user_id = c.user_id WHERE r.user_id = 1
SELECT * FROM user_channels c STRAIGHT_JOIN read_marks r ON r.user_id = c.user_id WHERE c.user_id = 1
SELECT * FROM user_channels c CROSS JOIN read_marks r
SELECT a.channel_id FROM user_channels a JOIN user_channels b ON a.channel_id = b.channel_id WHERE a.user_id = 1 AND b.user_id = 2
SELECT a.channel_id FROM user_channels a JOIN user_channels b ON a.user_id = b.user_id WHERE a.user_id = 1 AND b.channel_id = 2
SELECT c.channel_id, m.body FROM user_channels c JOIN messages m ON m.channel_id = c.channel_id WHERE c.user_id = 1
SELECT c.channel_id, m.body FROM user_channels c JOIN messages m ON m.channel_id = c.channel_id WHERE c.user_id = 1 AND m.channel_id = 9
SELECT c.channel_id, m.body FROM user_channels c JOIN messages m ON m.channel_id = c.channel_id WHERE c.user_id = 1 ORDER BY m.id DESC LIMIT 20
SELECT c.channel_id, COUNT(*) FROM user_channels c JOIN messages m ON m.channel_id = c.channel_id WHERE c.user_id = 1 GROUP BY c.channel_id
SELECT m.body, r.emoji FROM messages m JOIN reactions r ON r.message_id = m.id WHERE m.channel_id = 9
SELECT m.body, r.emoji FROM messages m JOIN reactions r ON r.channel_id = m.channel_id AND r.message_id = m.id WHERE r.user_id = 4
SELECT m.user_id, cm.role FROM messages m JOIN channel_members cm ON cm.channel_id = m.channel_id AND cm.user_id = m.user_id WHERE m.channel_id = 9
SELECT m.id FROM messages m LEFT JOIN messages t ON t.channel_id = m.channel_id AND t.thread_id = m.id WHERE m.channel_id = 9 AND t.id IS NULL
SELECT * FROM (SELECT channel_id, COUNT(*) AS n FROM user_channels WHERE user_id = 1 GROUP BY channel_id) t WHERE n > 1
SELECT * FROM (SELECT user_id, COUNT(*) AS n FROM user_channels GROUP BY user_id) t WHERE t.user_id = 1
SELECT * FROM (SELECT * FROM user_channels LIMIT 10) t WHERE t.user_id = 1
SELECT AVG(n) FROM (SELECT COUNT(*) AS n FROM user_channels GROUP BY user_id) t
SELECT t.channel_id FROM (SELECT channel_id FROM user_channels WHERE user_id = 1) t JOIN messages m ON m.channel_id = t.channel_id
SELECT (SELECT COUNT(*) FROM read_marks r WHERE r.user_id = 1) FROM user_channels WHERE user_id = 1
SELECT (SELECT COUNT(*) FROM read_marks r WHERE r.user_id = c.user_id) FROM user_channels c WHERE c.user_id = 1
SELECT user_id, (SELECT MAX(id) FROM messages m WHERE m.channel_id = c.channel_id) FROM user_channels c WHERE c.user_id = 1
SELECT channel_id FROM user_channels WHERE user_id = 1 UNION SELECT channel_id FROM read_marks WHERE user_id = 1
SELECT channel_id FROM user_channels WHERE user_id = 1 UNION ALL SELECT channel_id FROM user_channels WHERE user_id = 2
SELECT channel_id FROM user_channels WHERE user_id = 1 UNION SELECT channel_id FROM messages WHERE channel_id = 9
SELECT channel_id FROM user_channels UNION SELECT channel_id FROM read_marks ORDER BY channel_id LIMIT 5
SELECT role FROM user_channels UNION SELECT role FROM channel_members
WITH c AS (SELECT channel_id FROM user_channels WHERE user_id = 1) SELECT * FROM c
WITH c AS (SELECT channel_id FROM user_channels WHERE user_id = 1) SELECT m.id FROM c JOIN messages m ON m.channel_id = c.channel_id
WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT * FROM n
WITH RECURSIVE t AS (SELECT id, thread_id FROM messages WHERE channel_id = 9 AND id = 1 UNION ALL SELECT m.id, m.thread_id FROM messages m JOIN t ON m.thread_id = t.id WHERE m.channel_id = 9) SELECT * FROM t
SELECT id, ROW_NUMBER() OVER (ORDER BY id) FROM messages WHERE channel_id = 9
SELECT channel_id, RANK() OVER (PARTITION BY channel_id ORDER BY id) FROM messages
SELECT user_id, RANK() OVER (PARTITION BY user_id ORDER BY id) FROM messages
SELECT LAG(id) OVER w FROM messages WHERE channel_id = 9 WINDOW w AS (ORDER BY id)
SELECT JSON_OBJECT('a', role) FROM user_channels WHERE user_id = 1
SELECT JSON_ARRAYAGG(role) FROM user_channels WHERE user_id = 1
SELECT JSON_ARRAYAGG(role) FROM user_channels
SELECT CASE WHEN role = 'admin' THEN 1 ELSE 0 END FROM user_channels WHERE user_id = 1
SELECT CAST(role AS BINARY) FROM user_channels WHERE user_id = 1
SELECT role REGEXP '^a' FROM user_channels
SELECT MATCH (body) AGAINST ('x') FROM messages WHERE channel_id = 9
SELECT * FROM user_channels WHERE user_id = 1 FOR UPDATE
SELECT * FROM user_channels FOR UPDATE
SELECT * FROM user_channels WHERE user_id = 1 FOR UPDATE SKIP LOCKED
SELECT * FROM user_channels WHERE user_id = 1 LOCK IN SHARE MODE
SELECT * FROM user_channels FORCE INDEX (PRIMARY) WHERE user_id = 1
SELECT * FROM user_channels PARTITION (p0) WHERE user_id = 1
SELECT HIGH_PRIORITY * FROM user_channels WHERE user_id = 1
SELECT /*+ MAX_EXECUTION_TIME(1000) */ * FROM user_channels WHERE user_id = 1
SELECT /*vt+ SCATTER_ERRORS_AS_WARNINGS */ * FROM user_channels
SELECT /*vt+ QUERY_TIMEOUT_MS=100 */ * FROM user_channels WHERE user_id = 1
SELECT * FROM user_channels WHERE user_id = 1 INTO OUTFILE '/tmp/x'
SELECT nothing FROM user_channels WHERE user_id = 1
SELECT * FROM nowhere
SELECT * FROM nowhere.user_channels
SELECT * FROM messages.user_channels
SELECT u.nothing FROM user_channels c
SELECT user_id FROM user_channels c JOIN read_marks r ON c.user_id = r.user_id
SELECT * FROM information_schema.tables
SELECT * FROM information_schema.tables WHERE table_schema = 'messages'
SELECT table_name FROM information_schema.columns WHERE table_schema = 'messages' AND table_name = 'messages'
SELECT * FROM mysql.user
SELECT * FROM performance_schema.threads
SELECT * FROM messages_seq
SELECT NEXT VALUE FROM messages_seq
SELECT NEXT 5 VALUES FROM ids.messages_seq
SELECT id, keyspace_id FROM user WHERE id = 1
SELECT id, hex_keyspace_id FROM membership_by_user.user WHERE id = 1
SELECT * FROM channel WHERE id = 1
INSERT INTO user_channels (user_id, channel_id, team_id, joined_at) VALUES (1, 2, 3, NOW())
INSERT INTO user_channels VALUES (1, 2, 3, 'member', NOW())
INSERT INTO user_channels (user_id, channel_id, team_id, joined_at) VALUES (1, 2, 3, NOW()), (1, 3, 3, NOW())
INSERT INTO user_channels (user_id, channel_id, team_id, joined_at) VALUES (1, 2, 3, NOW()), (2, 2, 3, NOW())
INSERT INTO user_channels SET user_id = 1, channel_id = 2, team_id = 3, joined_at = NOW()
INSERT IGNORE INTO user_channels (user_id, channel_id, team_id, joined_at) VALUES (1, 2, 3, NOW())
INSERT INTO user_channels (channel_id, team_id) VALUES (2, 3)
INSERT INTO user_channels (user_id, channel_id, team_id, joined_at) VALUES (NULL, 2, 3, NOW())
INSERT INTO user_channels (user_id, channel_id, team_id, joined_at) VALUES (1, 2, 3, NOW()) ON DUPLICATE KEY UPDATE role = 'x'
INSERT INTO user_channels (user_id, channel_id, team_id, joined_at) VALUES (1, 2, 3, NOW()) ON DUPLICATE KEY UPDATE user_id = 7
INSERT INTO read_marks (user_id, channel_id, message_id) SELECT user_id, channel_id, 0 FROM user_channels WHERE user_id = 1
INSERT INTO read_marks (user_id, channel_id, message_id) SELECT user_id, channel_id, 0 FROM user_channels
INSERT INTO channel_members (channel_id, user_id, team_id, joined_at) SELECT channel_id, user_id, team_id, joined_at FROM user_channels WHERE user_id = 1
INSERT INTO messages (channel_id, team_id, user_id, client_token, posted_at, body) VALUES (1, 1, 1, 'a', NOW(), 'x'), (2, 1, 1, 'b', NOW(), 'y')
INSERT INTO messages (id, channel_id, team_id, user_id, client_token, posted_at, body) VALUES (NULL, 1, 1, 1, 'a', NOW(), 'x')
INSERT INTO messages (id, channel_id, team_id, user_id, client_token, posted_at, body) VALUES (77, 1, 1, 1, 'a', NOW(), 'x')
INSERT INTO messages_seq (id, next_id, cache) VALUES (1, 1, 1)
REPLACE INTO user_channels (user_id, channel_id, team_id, joined_at) VALUES (1, 2, 3, NOW())
REPLACE INTO user_channels (user_id, channel_id, team_id, joined_at) VALUES (1, 2, 3, NOW()), (2, 2, 3, NOW())
UPDATE user_channels SET role = 'x' WHERE user_id = 1
UPDATE user_channels SET role = 'x' WHERE user_id IN (1, 2)
UPDATE user_channels SET role = 'x' WHERE channel_id = 1
UPDATE user_channels SET role = 'x'
UPDATE user_channels SET role = 'x' WHERE channel_id = 1 ORDER BY user_id LIMIT 10
UPDATE user_channels SET role = 'x' WHERE user_id = 1 LIMIT 10
UPDATE user_channels SET user_id = 2 WHERE user_id = 1
UPDATE user_channels SET channel_id = 2 WHERE user_id = 1 AND channel_id = 1
UPDATE user_channels c JOIN read_marks r ON r.user_id = c.user_id SET c.role = 'x' WHERE r.user_id = 1
UPDATE user_channels c JOIN read_marks r ON r.channel_id = c.channel_id SET c.role = 'x' WHERE r.user_id = 1
UPDATE user_channels c, read_marks r SET c.role = 'x', r.message_id = 1 WHERE c.user_id = r.user_id AND c.user_id = 1
UPDATE user_channels SET role = (SELECT MAX(role) FROM channel_members WHERE channel_id = 1) WHERE user_id = 1
UPDATE user_channels SET role = 'x' WHERE user_id IN (SELECT user_id FROM channel_members WHERE channel_id = 1)
UPDATE messages SET id = 9 WHERE channel_id = 1 AND id = 8
UPDATE nowhere SET a = 1
DELETE FROM user_channels WHERE user_id = 1
DELETE FROM user_channels WHERE user_id IN (1, 2)
DELETE FROM user_channels WHERE channel_id = 1
DELETE FROM user_channels
DELETE FROM user_channels WHERE channel_id = 1 LIMIT 10
DELETE FROM user_channels WHERE user_id = 1 ORDER BY joined_at LIMIT 10
DELETE c FROM user_channels c JOIN read_marks r ON r.user_id = c.user_id WHERE c.user_id = 1
DELETE c FROM user_channels c JOIN channel_members m ON m.user_id = c.user_id WHERE m.channel_id = 1
DELETE c, r FROM user_channels c JOIN read_marks r ON r.user_id = c.user_id WHERE c.user_id = 1
DELETE FROM user_channels WHERE user_id = (SELECT user_id FROM read_marks WHERE user_id = 1)
DELETE FROM messages WHERE channel_id = 1 AND posted_at < NOW() - INTERVAL 90 DAY
DELETE FROM messages WHERE posted_at < NOW() - INTERVAL 90 DAY LIMIT 100
