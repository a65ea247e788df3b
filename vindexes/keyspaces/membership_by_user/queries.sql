-- channels_of_user: one_shard by user
SELECT channel_id, role, joined_at FROM user_channels WHERE user_id = 4711 ORDER BY joined_at DESC LIMIT 200;

-- is_member: one_shard by user
SELECT role FROM user_channels WHERE user_id = 4711 AND channel_id = 9;

-- count_channels_of_user: one_shard by user
SELECT COUNT(*) FROM user_channels WHERE user_id = 4711;

-- channels_with_read_marks: one_shard by user
SELECT c.channel_id, r.message_id FROM user_channels c LEFT JOIN read_marks r ON r.user_id = c.user_id AND r.channel_id = c.channel_id WHERE c.user_id = 4711;

-- channels_in_common: several by user
SELECT channel_id FROM user_channels WHERE user_id IN (4711, 4712) GROUP BY channel_id HAVING COUNT(*) = 2;

-- join_channel: one_shard by user
INSERT INTO user_channels (user_id, channel_id, team_id, role, joined_at) VALUES (4711, 9, 1, 'member', NOW(6)) ON DUPLICATE KEY UPDATE role = VALUES(role);

-- change_role: one_shard by user
UPDATE user_channels SET role = 'admin' WHERE user_id = 4711 AND channel_id = 9;

-- mark_read: one_shard by user
INSERT INTO read_marks (user_id, channel_id, message_id) VALUES (4711, 9, 1200) ON DUPLICATE KEY UPDATE message_id = GREATEST(message_id, VALUES(message_id));

-- leave_channel: one_shard by user
DELETE FROM user_channels WHERE user_id = 4711 AND channel_id = 9;

-- leave_all_channels: one_shard by user
DELETE FROM user_channels WHERE user_id = 4711;

-- A channel is archived page by page: its members are read by channel, and deleted here. Each shard
-- commits by itself, which the query must say that it bears: a page that failed is read and deleted again.
-- remove_members: several by user
DELETE /*vt+ MULTI_SHARD_AUTOCOMMIT=1 */ FROM user_channels WHERE user_id IN (4711, 4712, 4713) AND channel_id = 9;

-- A job of the night. It says itself that it scatters, so vtgate lets it.
-- count_memberships: scatter
SELECT /*vt+ ALLOW_SCATTER */ COUNT(*) FROM user_channels;

-- Half of the check that both memberships are the same. The sum does not depend on the order of rows.
-- sums_of_memberships: scatter
SELECT /*vt+ ALLOW_SCATTER */ CRC32(CONCAT(user_id, ',', channel_id)) % 256 AS bucket, COUNT(*) AS memberships,
  SUM(CAST(CONV(LEFT(SHA2(CONCAT_WS(',', user_id, channel_id, team_id, role, joined_at), 256), 15), 16, 10) AS UNSIGNED)) AS sum
FROM user_channels GROUP BY bucket;

-- The query that membership_by_channel is for.
-- members_of_channel: scatter, refused
SELECT user_id, role FROM user_channels WHERE channel_id = 9;
