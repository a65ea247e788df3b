package shardmove

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vifl/vifl/pkg/diff"
)

// TestNoCertificateWithoutKeys: a report that left tables out, because no key tells their
// rows apart, is never certified, and says which and what to do.
func TestNoCertificateWithoutKeys(t *testing.T) {
	m := &Move{show: "0123 (legacy_0123)"}
	c, err := m.certify(context.Background(), nil, nil, time.Now(), nil, nil, &diff.Report{}, &diff.Report{NotCompared: []string{"keyless"}})
	var refused *Refused
	if c != nil || !errors.As(err, &refused) || len(refused.Findings) != 1 {
		t.Fatalf("certificate %v, error %v", c != nil, err)
	}
	if f := refused.Findings[0]; f.ID != "P30" || !strings.Contains(f.Found, "keyless") || !strings.Contains(f.Remedy, "PRIMARY KEY") {
		t.Errorf("%+v", f)
	}
}
