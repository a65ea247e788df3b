-- Statements that VEXPLAIN does not take: run through vtgate, each in a session of its own. What the
-- audit calls unsupported fails, all others succeed.
BEGIN
START TRANSACTION
START TRANSACTION READ ONLY
START TRANSACTION WITH CONSISTENT SNAPSHOT
COMMIT
ROLLBACK
SAVEPOINT a
SET autocommit = 0
SET @a = 1
SET NAMES utf8mb4
SET sql_mode = 'STRICT_TRANS_TABLES'
SET time_zone = '+00:00'
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED
SET SESSION wait_timeout = 100
SET SESSION foreign_key_checks = 0
SET GLOBAL max_connections = 10
SET nothing_like_it = 1
SHOW TABLES
SHOW TABLES FROM messages
SHOW DATABASES
SHOW CREATE TABLE messages.messages
SHOW COLUMNS FROM messages.messages
SHOW INDEX FROM messages.messages
SHOW VARIABLES LIKE 'sql_mode'
SHOW STATUS LIKE 'Uptime'
SHOW WARNINGS
SHOW PROCESSLIST
SHOW ENGINES
SHOW VITESS_SHARDS
SHOW BINARY LOGS
USE messages
USE messages@replica
USE nowhere
EXPLAIN SELECT * FROM messages.messages WHERE channel_id = 1
DESCRIBE messages.messages
LOCK TABLES messages.messages WRITE
UNLOCK TABLES
FLUSH TABLES
ANALYZE TABLE messages.messages
OPTIMIZE TABLE messages.messages
CREATE TABLE in_no_keyspace (id INT)
CREATE TABLE nowhere.a (id INT)
DROP TABLE in_no_keyspace
CREATE TEMPORARY TABLE messages.t (id INT)
CREATE PROCEDURE p() SELECT 1
CREATE TRIGGER t BEFORE INSERT ON messages FOR EACH ROW SET @a = 1
CALL p()
HANDLER messages OPEN
LOAD DATA INFILE '/tmp/x' INTO TABLE messages
XA START 'a'
PREPARE s FROM 'SELECT 1'
DO SLEEP(0)
SELECT FROM WHERE
