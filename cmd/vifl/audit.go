package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	vtlog "vitess.io/vitess/go/vt/log"

	"github.com/vifl/vifl/pkg/audit"
	"github.com/vifl/vifl/pkg/audit/planner"
	"github.com/vifl/vifl/pkg/audit/querylog"
	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/shardid"
	"github.com/vifl/vifl/pkg/state"
	"github.com/vifl/vifl/pkg/vitess"
	"github.com/vifl/vifl/workflows/shardmove"
)

// exceeded is an audit that does not keep the limits of --fail-on.
type exceeded struct{ broken []string }

func (e exceeded) Error() string { return "audit: --fail-on: " + strings.Join(e.broken, "; ") }

// auditFlags are the flags of vifl audit.
type auditFlags struct {
	vschemas, schemas, shards []string
	keyspace, format, target  string
	mysqlVersion              string
	mysql, mysqlUser          string
	mysqlPasswordEnv          string
	mysqlPasswordFile         string
	database, teamColumns     string
	failOn, html              string
	top, maxQueries           int
	compare, showValues, live bool
	keep                      bool
}

func (a *app) newAuditCommand() *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "audit [FILE ...] | audit --target landing SHARD [FILE ...] | audit --compare A.json B.json",
		Short: "what the queries of a log would do behind vtgate",
		Long: `Reads logs of queries, plans each by Vitess' own planner against vschemas, and says which go to
one shard, which scatter, which are not supported, what transactions touch, and what is known
to bite. Values are never printed unless --show-values asks for them. docs/audit.md explains it.`,
		Example: `  vifl audit --vschema chat=chat.vschema.json --schema chat=chat.sql --shards chat=8 mysql-slow.log
  vifl audit --live --keyspace chat mysql-slow.log
  vifl audit --vschema chat.vschema.json --shards chat=8 --fail-on 'scatter>1%,unsupported>0' queries.sql
  vifl audit --target landing 0123 --database slack --mysql db1:3306 --mysql-user audit
  vifl audit --compare by_channel.json by_user.json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			// Vitess' planner warns on stderr by itself; all of it comes back in the plan.
			vtlog.SwapLogger(slog.New(slog.DiscardHandler))
			limits, err := f.limits()
			if err != nil {
				return err
			}
			if f.top < 1 {
				return usageError{fmt.Errorf("--top: found %d, expected 1 or more", f.top)}
			}
			if f.maxQueries < 1 {
				return usageError{fmt.Errorf("--max-queries: found %d, expected 1 or more", f.maxQueries)}
			}
			if f.compare {
				return a.auditCompare(args, f)
			}
			return a.audit(cmd.Context(), args, f, limits)
		},
	}
	s := cmd.Flags()
	s.StringArrayVar(&f.vschemas, "vschema", nil, "KEYSPACE=FILE or FILE: a vschema as GetVSchema or GetSrvVSchema prints it (repeatable)")
	s.StringArrayVar(&f.schemas, "schema", nil, "KEYSPACE=FILE: its CREATE TABLEs, as mysqldump --no-data writes them (repeatable)")
	s.StringSliceVar(&f.shards, "shards", nil, "KEYSPACE=N: the number of shards of a sharded keyspace (repeatable, or separated by commas)")
	s.BoolVar(&f.keep, "keep", false, "with --target landing: keep the outcome in the shard's state, where preflight shows it")
	s.BoolVar(&f.live, "live", false, "read vschemas, schemas and numbers of shards from the fleet that vifl.yaml names")
	s.StringVar(&f.keyspace, "keyspace", "", "the keyspace that sessions have selected (default: none; of a landing: by vifl.yaml, else legacy_SHARD)")
	s.StringVar(&f.format, "format", "auto", "format of the files: auto, "+querylog.FormatNames())
	s.StringVar(&f.target, "target", "keyspaces", "keyspaces, or landing: an unsharded keyspace for the legacy shard that is the first argument")
	s.StringVar(&f.mysqlVersion, "mysql-version", "", "the version of the tablets' MySQL, for version comments (default: Vitess' own default)")
	s.StringVar(&f.mysql, "mysql", "", "HOST:PORT or a socket's path: read performance_schema's digests from this server")
	s.StringVar(&f.mysqlUser, "mysql-user", "", "the account for --mysql")
	s.StringVar(&f.mysqlPasswordEnv, "mysql-password-env", "VIFL_AUDIT_PASSWORD", "the environment variable that holds its password")
	s.StringVar(&f.mysqlPasswordFile, "mysql-password-file", "", "a file that holds its password, instead")
	s.StringVar(&f.database, "database", "", "the legacy database: whose digests to read, and whose name before tables a landing does not know")
	s.StringVar(&f.teamColumns, "team-column", "team_id,teams.id", "columns that hold a team's id, for --target landing: COLUMN or TABLE.COLUMN, separated by commas")
	s.StringVar(&f.failOn, "fail-on", "", "exit with 4 when a limit is not kept, such as 'scatter>1%,unsupported>0'; metrics: "+strings.Join(audit.Metrics(), ", ")+"; with --compare: worse")
	s.StringVar(&f.html, "html", "", "write the result as one HTML page to this file, too")
	s.IntVar(&f.top, "top", 20, "how many queries the text shows")
	s.IntVar(&f.maxQueries, "max-queries", audit.DefaultMaxQueries, "how many distinct queries to tell apart; more are counted only")
	s.BoolVar(&f.compare, "compare", false, "lay two results of --output json side by side")
	s.BoolVar(&f.showValues, "show-values", false, "show one statement of each query with its values")
	return cmd
}

// limits reads --fail-on; with --compare it has one metric of its own.
func (f auditFlags) limits() ([]audit.Limit, error) {
	if f.failOn == "" || f.compare {
		return nil, nil
	}
	limits, err := audit.ParseLimits(f.failOn)
	if err != nil {
		return nil, usageError{fmt.Errorf("--fail-on: %w", err)}
	}
	return limits, nil
}

func (a *app) audit(ctx context.Context, args []string, f auditFlags, limits []audit.Limit) error {
	o := audit.Options{Keyspace: f.keyspace, MaxQueries: f.maxQueries, Examples: f.showValues}
	var shard *shardid.ID
	switch f.target {
	case "keyspaces":
	case "landing":
		if len(args) == 0 {
			return usageError{errors.New("--target landing: found no shard, expected its number as the first argument, such as 0123")}
		}
		id, err := shardid.Parse(args[0])
		if err != nil {
			return usageError{err}
		}
		shard, args = &id, args[1:]
	default:
		return usageError{fmt.Errorf("--target: found %q, expected keyspaces or landing", f.target)}
	}
	var keep *shardmove.Move
	if f.keep {
		if shard == nil {
			return usageError{errors.New("--keep: found no --target landing, expected it: only a legacy shard has a state to keep the outcome in")}
		}
		// Before an hour of log is read: what is wrong with vifl.yaml, or with the topo server.
		cfg, err := a.load()
		if err != nil {
			return err
		}
		if keep, err = shardmove.Open(ctx, cfg, *shard, newReporter(os.Stderr)); err != nil {
			return err
		}
		defer keep.Close()
	}
	if len(args) == 0 && f.mysql == "" {
		return usageError{errors.New("found nothing to read: name files (- is stdin), or a server by --mysql")}
	}
	var format querylog.Format
	if f.format != "auto" {
		format = querylog.Format(f.format)
		known := false
		for _, k := range querylog.Formats {
			known = known || k == format
		}
		if !known {
			return usageError{fmt.Errorf("--format: found %q, expected auto, %s", f.format, querylog.FormatNames())}
		}
	}
	schemas, err := pairs("--schema", f.schemas)
	if err != nil {
		return err
	}
	var db *source
	if f.mysql != "" {
		if db, err = f.connect(ctx); err != nil {
			return err
		}
		defer func() { _ = db.db.Close() }()
	}
	if shard != nil {
		o.Landing, err = a.landing(ctx, *shard, f, schemas, db)
		if err != nil {
			return err
		}
		o.Planner, o.Keyspace = o.Landing.Planner(), o.Landing.Keyspace()
	} else if f.live {
		if o.Planner, err = a.livePlanner(ctx, f); err != nil {
			return err
		}
	} else if o.Planner, err = f.planner(schemas); err != nil {
		return usageError{err}
	}
	for _, name := range args {
		o.Inputs = append(o.Inputs, filepath.Base(name))
	}
	if db != nil {
		o.Inputs = append(o.Inputs, "performance_schema of "+f.mysql)
	}
	auditor := audit.New(o)
	show := newReporter(os.Stderr)
	for _, name := range args {
		if err := auditFile(ctx, auditor, name, format, show); err != nil {
			return err
		}
	}
	if db != nil {
		if err := querylog.ReadDigests(ctx, db.db, f.database, func(e querylog.Event) error { return auditor.Observe(ctx, e) }); err != nil {
			return mysqlconn.Explain(db.target, err)
		}
	}
	result := auditor.Result()
	result.Broken = audit.Check(result, limits)
	if keep != nil {
		if err := keep.KeepAudit(ctx, kept(result)); err != nil {
			return err
		}
	}
	if f.html != "" {
		if err := writePage(f.html, result); err != nil {
			return err
		}
	}
	if err := a.print(result, func(w io.Writer) { result.WriteText(w, f.top) }); err != nil {
		return err
	}
	if len(result.Broken) > 0 {
		var e exceeded
		for _, b := range result.Broken {
			e.broken = append(e.broken, b.String())
		}
		return e
	}
	return nil
}

// planner makes the planner of --target keyspaces.
func (f auditFlags) planner(schemas map[string]string) (*planner.Planner, error) {
	if len(f.vschemas) == 0 {
		return nil, errors.New("found no --vschema, expected one for each keyspace, such as --vschema chat=chat.vschema.json, or --live")
	}
	v := planner.NewVSchema()
	for _, arg := range f.vschemas {
		if err := v.AddFile(arg); err != nil {
			return nil, fmt.Errorf("--vschema %s: %w", arg, err)
		}
	}
	for _, arg := range f.shards {
		name, number, ok := strings.Cut(arg, "=")
		n, err := strconv.Atoi(number)
		if !ok || err != nil || n < 1 || n > 65536 {
			return nil, fmt.Errorf("--shards: found %q, expected KEYSPACE=N with N from 1 to 65536, such as chat=8", arg)
		}
		v.Shards[name] = n
	}
	return planner.New(planner.Options{VSchema: v, Schemas: schemas, Keyspace: f.keyspace, MySQLVersion: f.mysqlVersion})
}

// kept is what a shard's state keeps of an audit.
func kept(r *audit.Result) state.Audit {
	k := state.Audit{At: time.Now().UTC(), Who: state.Whoami(), Vitess: r.Vitess, Inputs: r.Inputs, Calls: r.Totals.Calls, Judged: r.Totals.Judged, Queries: r.Totals.Queries}
	for _, f := range r.Findings {
		if f.Breaks {
			k.Breaks = append(k.Breaks, state.AuditFinding{ID: f.ID, Title: f.Title, Calls: f.Calls})
		}
	}
	return k
}

// livePlanner makes the planner of --live.
func (a *app) livePlanner(ctx context.Context, f auditFlags) (*planner.Planner, error) {
	if len(f.vschemas)+len(f.schemas)+len(f.shards) > 0 {
		return nil, usageError{errors.New("--live: found --vschema, --schema or --shards: all three are read from the fleet")}
	}
	c, err := a.load()
	if err != nil {
		return nil, err
	}
	fleet, err := vitess.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	defer fleet.Close()
	served, err := fleet.Served(ctx, c.Cells[0])
	if err != nil {
		return nil, err
	}
	v := planner.NewVSchema()
	if err := v.AddAll(served.VSchema); err != nil {
		return nil, err
	}
	v.Shards = served.Shards
	p, err := planner.New(planner.Options{VSchema: v, Creates: served.Creates, Keyspace: f.keyspace, MySQLVersion: f.mysqlVersion})
	if err != nil {
		return nil, usageError{err}
	}
	return p, nil
}

// landing makes the planners of --target landing. The schema comes from --schema, or from the
// server that is read.
func (a *app) landing(ctx context.Context, shard shardid.ID, f auditFlags, schemas map[string]string, db *source) (*audit.Landing, error) {
	if len(f.vschemas)+len(f.shards) > 0 || f.live {
		return nil, usageError{errors.New("--target landing: found --vschema, --shards or --live: a landing is one unsharded keyspace and has neither")}
	}
	keyspace := f.keyspace
	if keyspace == "" {
		template := shardid.Template("legacy_{shard}")
		switch c, err := config.Load(a.configPath); {
		case err == nil:
			template = c.Landing.Keyspace
		case !errors.Is(err, fs.ErrNotExist):
			return nil, usageError{err}
		}
		keyspace = template.Keyspace(shard)
	}
	file := ""
	for name, path := range schemas {
		if name != keyspace {
			return nil, usageError{fmt.Errorf("--schema: found keyspace %q, expected %s", name, keyspace)}
		}
		file = path
	}
	columns, err := audit.ParseTeamColumns(f.teamColumns)
	if err != nil {
		return nil, usageError{fmt.Errorf("--team-column: %w", err)}
	}
	creates := ""
	if file == "" && db != nil && f.database != "" {
		s, err := schema.Read(ctx, db.db, f.database)
		if err != nil {
			return nil, mysqlconn.Explain(db.target, err)
		}
		var b strings.Builder
		for _, t := range s.Tables {
			b.WriteString(t.Create + ";\n")
		}
		creates = b.String()
	}
	l, err := audit.NewLanding(keyspace, f.database, file, creates, columns)
	if err != nil {
		return nil, usageError{err}
	}
	return l, nil
}

// pairs reads KEYSPACE=FILE arguments.
func pairs(flag string, args []string) (map[string]string, error) {
	out := map[string]string{}
	for _, arg := range args {
		name, path, ok := strings.Cut(arg, "=")
		if !ok || name == "" || path == "" {
			return nil, usageError{fmt.Errorf("%s: found %q, expected KEYSPACE=FILE, such as chat=chat.sql", flag, arg)}
		}
		if _, twice := out[name]; twice {
			return nil, usageError{fmt.Errorf("%s: found keyspace %q twice, expected one file for each", flag, name)}
		}
		out[name] = path
	}
	return out, nil
}

// auditFile reads one log, - for stdin.
func auditFile(ctx context.Context, auditor *audit.Auditor, name string, format querylog.Format, show *reporter) error {
	file, total := os.Stdin, 0.0
	if name != "-" {
		var err error
		if file, err = os.Open(name); err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		defer func() { _ = file.Close() }()
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			total = float64(info.Size())
		}
	}
	counted := &countingReader{r: file}
	r := bufio.NewReaderSize(counted, 1<<16)
	if format == "" {
		head, err := r.Peek(1 << 14)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read the log %s: %w", name, err)
		}
		if len(head) == 0 {
			return fmt.Errorf("the log %s is empty: found nothing to audit", name)
		}
		if format, err = querylog.Detect(name, head); err != nil {
			return usageError{err}
		}
	}
	began, events := time.Now(), 0
	err := querylog.Read(ctx, r, format, func(e querylog.Event) error {
		events++
		if events&0xfff == 0 && time.Since(began) > 2*time.Second {
			show.Progress(shardmove.Progress{
				What: "audit " + filepath.Base(name), Done: float64(counted.n), Total: total,
				Detail: fmt.Sprintf("%d statements, %.1f MB, %.0f statements/s", events, float64(counted.n)/1e6, float64(events)/time.Since(began).Seconds()),
			})
		}
		return auditor.Observe(ctx, e)
	})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Errorf("audit %s: %w", name, err)
	}
	if time.Since(began) > 2*time.Second {
		show.Progress(shardmove.Progress{What: "audit " + filepath.Base(name), Done: 1, Total: 1, Detail: fmt.Sprintf("%d statements", events), Final: true})
	}
	return nil
}

type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func writePage(path string, result *audit.Result) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return errors.Join(result.WriteHTML(file), file.Close())
}

// auditCompare is --compare.
func (a *app) auditCompare(args []string, f auditFlags) error {
	if len(args) != 2 {
		return usageError{fmt.Errorf("--compare: found %d files, expected two results of --output json", len(args))}
	}
	var worst []audit.Limit
	if f.failOn != "" {
		var err error
		if worst, err = audit.ParseCompareLimits(f.failOn); err != nil {
			return usageError{fmt.Errorf("--fail-on: %w", err)}
		}
	}
	var results [2]*audit.Result
	for i, name := range args {
		file, err := os.Open(name)
		if err != nil {
			return usageError{fmt.Errorf("--compare: %w", err)}
		}
		results[i], err = audit.ReadResult(file, name)
		_ = file.Close()
		if err != nil {
			return usageError{fmt.Errorf("--compare: %w", err)}
		}
	}
	c, err := audit.Compare(results[0], results[1], args[0], args[1])
	if err != nil {
		return usageError{fmt.Errorf("--compare: %w", err)}
	}
	if err := a.print(c, func(w io.Writer) { c.WriteText(w, f.top) }); err != nil {
		return err
	}
	var e exceeded
	for _, b := range audit.CheckComparison(c, worst) {
		e.broken = append(e.broken, b.String())
	}
	if len(e.broken) > 0 {
		return e
	}
	return nil
}

// source is the server whose digests are read.
type source struct {
	db     *sql.DB
	target mysqlconn.Target
}

// connect opens --mysql.
func (f auditFlags) connect(ctx context.Context) (*source, error) {
	t := mysqlconn.Target{Name: "--mysql"}
	if strings.HasPrefix(f.mysql, "/") {
		t.Socket = f.mysql
	} else {
		host, port, err := net.SplitHostPort(f.mysql)
		n, nerr := strconv.Atoi(port)
		if err != nil || nerr != nil || host == "" || n < 1 || n > 65535 {
			return nil, usageError{fmt.Errorf("--mysql: found %q, expected HOST:PORT, such as db1:3306, or a socket's path", f.mysql)}
		}
		t.Host, t.Port = host, n
	}
	if f.mysqlUser == "" {
		return nil, usageError{errors.New("--mysql: found no --mysql-user, expected the account to read performance_schema with")}
	}
	t.User = f.mysqlUser
	password, found := os.LookupEnv(f.mysqlPasswordEnv)
	if f.mysqlPasswordFile != "" {
		text, err := os.ReadFile(f.mysqlPasswordFile)
		if err != nil {
			return nil, usageError{fmt.Errorf("--mysql-password-file: %w", err)}
		}
		password, found = strings.TrimRight(string(text), "\r\n"), true
	}
	if !found {
		return nil, usageError{fmt.Errorf("--mysql: found no password: put it into the environment variable %s, or into a file that --mysql-password-file names", f.mysqlPasswordEnv)}
	}
	t.Password = mysqlconn.Secret(password)
	db, err := mysqlconn.Connect(ctx, t)
	if err != nil {
		return nil, err
	}
	return &source{db: db, target: t}, nil
}
