package legacy

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/vifl/vifl/pkg/mysqlconn"
)

// session is a connection, alone or of a pool.
type session interface {
	mysqlconn.Queryer
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func (s *Server) flagsOn(ctx context.Context, conn session) (Flags, error) {
	var f Flags
	err := conn.QueryRowContext(ctx, "SELECT @@GLOBAL.read_only, @@GLOBAL.super_read_only, @@GLOBAL.offline_mode").
		Scan(&f.ReadOnly, &f.SuperReadOnly, &f.OfflineMode)
	if err != nil {
		return Flags{}, s.failed("reading the read-only flags", err)
	}
	return f, nil
}

// setFlagsOn sets what differs and reads back. super_read_only=0 leaves read_only=1, and
// read_only=0 takes super_read_only with it, so read_only goes first and super_read_only
// after it.
func (s *Server) setFlagsOn(ctx context.Context, conn session, want Flags) error {
	now, err := s.flagsOn(ctx, conn)
	if err != nil {
		return err
	}
	// offline_mode comes last, so that clients who come back find the server writable.
	for _, flag := range []struct {
		name      string
		now, want bool
	}{
		{"read_only", now.ReadOnly, want.ReadOnly},
		{"super_read_only", now.SuperReadOnly, want.SuperReadOnly},
		{"offline_mode", now.OfflineMode, want.OfflineMode},
	} {
		if flag.now == flag.want {
			continue
		}
		if _, err := conn.ExecContext(ctx, "SET GLOBAL "+flag.name+"="+onOff(flag.want)); err != nil {
			return s.failed("setting "+flag.name+" to "+onOff(flag.want), err)
		}
	}
	got, err := s.flagsOn(ctx, conn)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%s: found %s after setting them, expected %s", s.target, got, want)
	}
	return nil
}
