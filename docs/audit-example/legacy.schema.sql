CREATE TABLE teams (id bigint NOT NULL AUTO_INCREMENT, name varchar(100) NOT NULL, PRIMARY KEY (id));
CREATE TABLE messages (id bigint NOT NULL AUTO_INCREMENT, team_id bigint NOT NULL, text text, PRIMARY KEY (id), KEY team (team_id));
CREATE TABLE config (name varchar(100) NOT NULL, value text, PRIMARY KEY (name));
