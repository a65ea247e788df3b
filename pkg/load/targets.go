package load

import (
	"fmt"

	"github.com/vifl/vifl/pkg/config"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/shardid"
)

// FromConfig are the options of a load on a fleet: mains and the account that the
// application has on mains and on everything mains names. The rest is the caller's.
func FromConfig(c *config.Config, app mysqlconn.Account) (Options, error) {
	mains, err := c.MainsTarget()
	if err != nil {
		return Options{}, err
	}
	mains.Account = app
	return Options{Mains: mains, App: app}, nil
}

// VerifyFromConfig are the options of a verification on a fleet. Legacy servers are read
// as vifl's own account, which may log in when the application no longer may.
func VerifyFromConfig(c *config.Config, ledger string) (VerifyOptions, error) {
	o := VerifyOptions{Ledger: ledger, Servers: map[shardid.ID]Servers{}}
	var err error
	if o.Mains, err = c.MainsTarget(); err != nil {
		return o, err
	}
	for _, s := range c.Shards {
		servers := Servers{Legacy: map[string]mysqlconn.Target{}}
		for side := range s.Sides {
			t, err := c.SideTarget(s, side)
			if err != nil {
				return o, err
			}
			t.Database = s.Database
			servers.Legacy[side] = t
		}
		if servers.Vitess, err = c.VtgateTarget(s.Number.ID); err != nil {
			return o, fmt.Errorf("shard %s: %w", s.Number, err)
		}
		o.Servers[s.Number.ID] = servers
	}
	return o, nil
}
