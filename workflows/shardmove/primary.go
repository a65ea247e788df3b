package shardmove

import (
	"context"
	"database/sql"
	"sync"
	"time"
)

const (
	// primaryFresh is how long the landing's primary is taken to be the one that it was: a
	// stream asks for it hundreds of times a second.
	primaryFresh = 2 * time.Second
	// primaryStale is how long the last known one is used while nobody can say who it is. A
	// former primary takes no writes, or none that anybody acknowledges; what was written
	// there is read from the next one with its position.
	primaryStale = 10 * time.Second
)

// primaryPool is vifl's connections to the landing's primary, whichever that is.
type primaryPool struct {
	m      *Move
	asking sync.Mutex // held while the topo server is asked

	mu    sync.Mutex
	alias string
	db    *sql.DB
	asked time.Time
	all   []*sql.DB // former primaries' too: somebody may still use them
}

func (p *primaryPool) known() (*sql.DB, string, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.db, p.alias, time.Since(p.asked)
}

// get is the pool to the present primary. Whoever asks while another already does is given
// the last known one.
func (p *primaryPool) get(ctx context.Context) (*sql.DB, error) {
	db, _, age := p.known()
	if db != nil && age < primaryFresh {
		return db, nil
	}
	if db == nil || age >= primaryStale {
		p.asking.Lock()
	} else if !p.asking.TryLock() {
		return db, nil
	}
	defer p.asking.Unlock()
	db, alias, age := p.known()
	if db != nil && age < primaryFresh {
		return db, nil
	}
	next, err := p.ask(ctx, db, alias)
	if err != nil && db != nil && age < primaryStale {
		return db, nil
	}
	return next, err
}

func (p *primaryPool) ask(ctx context.Context, db *sql.DB, alias string) (*sql.DB, error) {
	primary, err := p.m.landing.Primary(ctx)
	if err != nil {
		return nil, err
	}
	if db == nil || primary.Alias != alias {
		acc, err := p.m.landingAccount()
		if err != nil {
			return nil, err
		}
		if db, err = p.m.landing.Connect(ctx, primary, acc, p.m.shard.Database); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if db != p.db {
		p.all = append(p.all, db)
	}
	p.db, p.alias, p.asked = db, primary.Alias, time.Now()
	return db, nil
}

func (p *primaryPool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, db := range p.all {
		_ = db.Close()
	}
}
