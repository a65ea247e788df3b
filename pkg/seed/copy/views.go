package copy

import (
	"context"
	"fmt"
	"strings"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/schema"
)

// createViews makes the views word for word. A view may rest on another that is not there
// yet, so those that fail for that reason are tried again as long as one more succeeds.
//
// A view keeps its DEFINER even when no such account exists here: its use then fails with
// 1449, plainly, while another definer would quietly give other rights.
func (f *fill) createViews(ctx context.Context, s *schema.Schema) error {
	if len(s.Views) == 0 {
		return nil
	}
	conn, err := f.db.Conn(ctx)
	if err != nil {
		return f.failed("connect", err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "USE "+schema.Quote(f.src.Database)); err != nil {
		return f.failed("use the database", err)
	}
	create := map[string]string{}
	for _, v := range s.Views {
		var name, text, charset, collation string
		err := f.src.Snapshots[0].QueryRowContext(ctx, "SHOW CREATE VIEW "+schema.Quote(f.src.Database)+"."+schema.Quote(v)).Scan(&name, &text, &charset, &collation)
		if err != nil {
			return fmt.Errorf("%s: read view %q: %w: grant SHOW VIEW", f.src.Name, v, err)
		}
		create[v] = text
	}
	left := s.Views
	for len(left) > 0 {
		var again []string
		var last error
		for _, v := range left {
			if _, err := conn.ExecContext(ctx, create[v]); err != nil {
				if !mysqlconn.IsNoSuchTable(err) {
					return f.failed(fmt.Sprintf("create view %q", v), err)
				}
				again, last = append(again, v), err
			}
		}
		if len(again) == len(left) {
			return f.failed("create the views "+strings.Join(left, ", "), last)
		}
		left = again
	}
	return nil
}
