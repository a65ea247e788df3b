-- history: one_shard by channel
SELECT id, user_id, posted_at, body FROM messages WHERE channel_id = 9 AND id < 100000 ORDER BY id DESC LIMIT 50;

-- message: one_shard by channel
SELECT user_id, posted_at, body FROM messages WHERE channel_id = 9 AND id = 1200;

-- thread: one_shard by channel
SELECT id, user_id, body FROM messages WHERE channel_id = 9 AND thread_id = 1200 ORDER BY id LIMIT 100;

-- posted_before: one_shard by channel
SELECT id FROM messages WHERE channel_id = 9 AND client_token = '6f1c3a';

-- unread: one_shard by channel
SELECT COUNT(*) FROM messages WHERE channel_id = 9 AND id > 1200;

-- newest_of_channels: several by channel
SELECT channel_id, MAX(id) FROM messages WHERE channel_id IN (9, 10, 11) GROUP BY channel_id;

-- reactions_of_page: one_shard by channel
SELECT message_id, emoji, COUNT(*) FROM reactions WHERE channel_id = 9 AND message_id IN (1200, 1201, 1202) GROUP BY message_id, emoji;

-- history_with_reactions: one_shard by channel
SELECT m.id, m.body, r.emoji, r.user_id FROM messages m LEFT JOIN reactions r ON r.channel_id = m.channel_id AND r.message_id = m.id WHERE m.channel_id = 9 AND m.id BETWEEN 1200 AND 1250;

-- post: one_shard by channel
INSERT INTO messages (channel_id, team_id, user_id, client_token, posted_at, body) VALUES (9, 1, 4711, '6f1c3a', NOW(6), 'hello');

-- edit: one_shard by channel
UPDATE messages SET body = 'hello, world' WHERE channel_id = 9 AND id = 1200;

-- react: one_shard by channel
INSERT IGNORE INTO reactions (channel_id, message_id, user_id, emoji) VALUES (9, 1200, 4711, 'tada');

-- unreact: one_shard by channel
DELETE FROM reactions WHERE channel_id = 9 AND message_id = 1200 AND user_id = 4711 AND emoji = 'tada';

-- delete_message: one_shard by channel
DELETE FROM messages WHERE channel_id = 9 AND id = 1200;

-- old_messages: scatter
SELECT /*vt+ ALLOW_SCATTER */ channel_id, id FROM messages WHERE posted_at < '2020-01-01' ORDER BY posted_at, channel_id, id LIMIT 1000;

-- What a search index is for.
-- messages_of_user: scatter, refused
SELECT channel_id, id, body FROM messages WHERE user_id = 4711 ORDER BY id DESC LIMIT 50;

-- A message by its id alone: the caller has lost the channel.
-- message_by_id: scatter, refused
SELECT channel_id, body FROM messages WHERE id = 1200;
