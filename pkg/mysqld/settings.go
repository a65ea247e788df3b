package mysqld

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// small makes a server of about 200 MB instead of 500: many of them share one machine, and
// all of them can be made again. What makes data survive a crash of the *machine* is off;
// a crash of the server loses nothing. performance_schema stays on: clone's position, the
// lock views and the replication tables are in it.
const small = `
mysqlx = OFF
skip-name-resolve
secure-file-priv =
max_connections = 151
table_open_cache = 400
table_definition_cache = 400
thread_cache_size = 8
innodb_buffer_pool_size = 32M
innodb_log_buffer_size = 1M
loose-innodb_redo_log_capacity = 64M
innodb_doublewrite = OFF
innodb_flush_log_at_trx_commit = 2
sync_binlog = 0
performance_schema = ON
performance_schema_max_table_instances = 400
performance_schema_max_table_handles = 400
performance_schema_max_digest_length = 256
performance_schema_digests_size = 200
performance_schema_max_sql_text_length = 256
performance_schema_events_statements_history_long_size = 100
performance_schema_events_stages_history_long_size = 100
performance_schema_events_transactions_history_long_size = 100
performance_schema_events_waits_history_long_size = 100
performance_schema_accounts_size = 50
performance_schema_hosts_size = 50
performance_schema_users_size = 50
performance_schema_session_connect_attrs_size = 512
`

// Settings is a my.cnf section with what the installation needs to start and the settings
// of a small server.
func Settings(inst *Installation) (string, error) {
	var needed []byte
	if inst.Cnf != "" {
		var err error
		if needed, err = os.ReadFile(inst.Cnf); err != nil {
			return "", fmt.Errorf("settings of the installation: %w", err)
		}
	}
	return string(needed) + "\n[mysqld]" + small, nil
}

// writeCnf writes the server's my.cnf: Settings, then extra, which wins. Paths are not in
// it but on the command line, where no character of them needs quoting.
func writeCnf(path string, inst *Installation, extra []string) error {
	settings, err := Settings(inst)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(settings)
	for _, line := range extra {
		if strings.ContainsAny(line, "\r\n") {
			return fmt.Errorf("server setting %q: expected one line", line)
		}
		b.WriteString(strings.TrimPrefix(line, "--") + "\n")
	}
	return os.WriteFile(path, []byte(b.String()), 0o640)
}

// arguments are the paths a server is started with.
func (s *Server) arguments() []string {
	dir := s.o.Dir
	bind, host := "127.0.0.1", "127.0.0.1"
	if s.o.Host != "" {
		bind, host = "*", s.o.Host
	}
	args := []string{
		"--defaults-file=" + filepath.Join(dir, "my.cnf"),
		"--datadir=" + s.DataDir(),
		"--tmpdir=" + filepath.Join(dir, "tmp"),
		"--socket=" + s.socket,
		"--pid-file=" + filepath.Join(dir, "mysqld.pid"),
		"--log-error=" + s.LogFile(),
		"--relay-log=" + filepath.Join(s.DataDir(), "relay"),
		"--bind-address=" + bind,
		fmt.Sprintf("--port=%d", s.o.Port),
		fmt.Sprintf("--report-port=%d", s.o.Port),
		"--report-host=" + host,
		fmt.Sprintf("--server-id=%d", s.o.ServerID),
	}
	// A server without a binlog is asked for with the line skip-log-bin.
	if !slices.Contains(s.o.Extra, "skip-log-bin") {
		args = append(args, "--log-bin="+filepath.Join(s.DataDir(), "binlog"))
	}
	return append(args, basedir(s.inst, s.o)...)
}

// basedir is where the server finds its messages and plugins: below the folder it was
// found in, as Vitess' own start of it has it.
func basedir(inst *Installation, o Options) []string {
	var args []string
	if info, err := os.Stat(filepath.Join(inst.Root, "share")); err == nil && info.IsDir() {
		args = append(args, "--basedir="+inst.Root)
	}
	if o.RunAs.IsZero() && os.Geteuid() == 0 {
		args = append(args, "--user=root") // asked for: it refuses otherwise
	}
	return args
}
