-- members_of_channel: one_shard by channel
SELECT user_id, role FROM channel_members WHERE channel_id = 9 AND user_id > 4700 ORDER BY user_id LIMIT 200;

-- count_members: one_shard by channel
SELECT COUNT(*) FROM channel_members WHERE channel_id = 9;

-- admins_of_channel: one_shard by channel
SELECT user_id FROM channel_members WHERE channel_id = 9 AND role = 'admin';

-- who_of_these: one_shard by channel
SELECT user_id FROM channel_members WHERE channel_id = 9 AND user_id IN (4711, 4712, 4713);

-- sizes_of_channels: several by channel
SELECT channel_id, COUNT(*) FROM channel_members WHERE channel_id IN (9, 10, 11) GROUP BY channel_id;

-- largest_channels: scatter
SELECT /*vt+ ALLOW_SCATTER */ channel_id, COUNT(*) AS members FROM channel_members GROUP BY channel_id ORDER BY members DESC, channel_id LIMIT 100;

-- Half of the check that both memberships are the same. The sum does not depend on the order of rows.
-- sums_of_memberships: scatter
SELECT /*vt+ ALLOW_SCATTER */ CRC32(CONCAT(user_id, ',', channel_id)) % 256 AS bucket, COUNT(*) AS memberships,
  SUM(CAST(CONV(LEFT(SHA2(CONCAT_WS(',', user_id, channel_id, team_id, role, joined_at), 256), 15), 16, 10) AS UNSIGNED)) AS sum
FROM channel_members GROUP BY bucket;

-- The query that membership_by_user is for.
-- channels_of_user: scatter, refused
SELECT channel_id, role FROM channel_members WHERE user_id = 4711;
