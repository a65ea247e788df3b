package vitess_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/vitess/vitesstest"
)

// One fleet and one landing with a tablet serve all tests of this package.
var (
	fleet  *vitesstest.Fleet
	tablet *vitesstest.Tablet
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	var err error
	fleet, err = vitesstest.Start(ctx)
	defer func() {
		if err := fleet.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	if err == nil {
		tablet, err = fleet.AddLanding(ctx, "legacy_0123", "slack", nil)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
