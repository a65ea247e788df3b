package mains

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/vifl/vifl/pkg/shardid"
	"github.com/vifl/vifl/pkg/teammap"
)

// TeamMap reads where every team lives, in one statement, which is one snapshot. It needs
// mains.map. A team that is there twice, an id below 0, a shard that is no number from 0 to
// 65535, and a mains without any team are errors: half a map would send the other teams
// astray.
func (m *Mains) TeamMap(ctx context.Context) (*teammap.Map, error) {
	if strings.TrimSpace(m.teamMap.text) == "" {
		return nil, fmt.Errorf("configuration: mains.map: missing statement: add one that selects every team with its shard, such as SELECT team_id, shard FROM teams")
	}
	read := time.Now()
	rows, err := m.db.QueryContext(ctx, m.teamMap.text)
	if err != nil {
		return nil, m.failed(m.teamMap.key, err)
	}
	defer rows.Close()
	wrong := func(err error) error {
		return fmt.Errorf("%s: %s: %w: expected two columns, the id of a team and the number of its shard", m.teamMap.key, m.target, err)
	}
	var b teammap.Builder
	for rows.Next() {
		var team uint64
		var shard sql.RawBytes
		if err := rows.Scan(&team, &shard); err != nil {
			return nil, wrong(err)
		}
		id, err := shardid.Parse(string(shard))
		if err != nil {
			return nil, wrong(fmt.Errorf("team %d: %w", team, err))
		}
		b.Add(team, id)
	}
	if err := rows.Err(); err != nil {
		return nil, m.failed(m.teamMap.key, err)
	}
	if b.Len() == 0 {
		return nil, fmt.Errorf("%s: %s: found no team: a map of nobody is not written; look at mains.address and mains.database, as whom we log in, and the statement", m.teamMap.key, m.target)
	}
	built, err := b.Build(read)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", m.teamMap.key, m.target, err)
	}
	return built, nil
}
