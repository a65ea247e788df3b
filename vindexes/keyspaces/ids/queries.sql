-- A batch of ids for a job that writes many messages.
-- next_messages: reference
SELECT NEXT 100 VALUES FROM messages_seq;
