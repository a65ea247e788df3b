package binlog

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/stream/dump"
)

// workerVariable makes the test's program a worker: its value says of what.
const workerVariable = "VIFL_TEST_BINLOG_WORKER"

// workerOf is what a worker in a process of its own needs to know.
type workerOf struct {
	Target      mysqlconn.Target
	SourcePort  int
	Server      string
	Takeover    time.Duration
	Connections int
}

// workerProcess is the main function of such a process. It ends with its parent.
func workerProcess() int {
	var o workerOf
	if err := json.Unmarshal([]byte(os.Getenv(workerVariable)), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	o.Target.Password = ""
	db, err := mysqlconn.Open(o.Target)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	src := dump.Source{Target: mysqlconn.Target{Name: "legacy", Host: "127.0.0.1", Port: o.SourcePort, Account: mysqlconn.Account{User: "root"}}, Server: o.Server}
	s := New(func(context.Context) (*sql.DB, error) { return db, nil }, "vifl_0123", database, src)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // the parent holds the other end
		var b [1]byte
		_, _ = os.Stdin.Read(b[:])
		cancel()
	}()
	if err := NewWorker(s, Options{Takeover: o.Takeover, Connections: o.Connections}).Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
