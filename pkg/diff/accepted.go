package diff

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/vifl/vifl/pkg/schema"
)

// ErrSame is returned, wrapped, for a row that was said to have drifted and did not.
var ErrSame = errors.New("the row is the same on both sides")

// Pair is one row on two sides, by its content: it changes whenever either row does.
type Pair struct {
	Table string `json:"table"`
	// Key is in the form of Difference.KeyText.
	Key string `json:"key"`
	// Source and Target are the SHA-256 of the whole row in hex, empty where there is none.
	Source string `json:"source"`
	Target string `json:"target"`
}

// Same reports that both sides hold the same row, or none.
func (p Pair) Same() bool { return p.Source == p.Target }

// DriftOf reads rows by their keys, in the form that a report prints, on both sides, again
// and again as Drift does, and returns them with their digests. All of them must have
// drifted: one that is the same on both sides once these have applied each other's writes is
// an error that wraps ErrSame, one that neither side has wraps ErrKey.
func DriftOf(ctx context.Context, a, b Pool, s *schema.Schema, tableName string, keys []string, settle func(context.Context) error) ([]Difference, error) {
	e, closeAll, err := pairEngine(ctx, a, b, s, len(keys))
	if err != nil {
		return nil, err
	}
	defer closeAll()
	if err := sameTables(ctx, e.source, e.targets, s); err != nil {
		return nil, err
	}
	var list []*suspect
	for _, text := range keys {
		t, key, err := e.key(ctx, tableName, text)
		if err != nil {
			return nil, err
		}
		list = append(list, newSuspect(t, key))
	}
	left, err := e.settled(ctx, list, settle)
	if err != nil {
		return nil, err
	}
	drifted := map[*suspect]bool{}
	for _, s := range left {
		drifted[s] = true
	}
	for i, s := range list {
		switch {
		case s.lastA == nil && s.lastB == nil:
			return nil, fmt.Errorf("%w: table %q, key %q: neither %s nor %s has such a row", ErrKey, tableName, keys[i], a.Name, b.Name)
		case !drifted[s]:
			return nil, fmt.Errorf("table %q, key %q, %s and %s: %w", tableName, keys[i], a.Name, b.Name, ErrSame)
		}
	}
	if err := e.recordDrift(ctx, left); err != nil {
		return nil, err
	}
	return e.found[0].differences, nil
}

// PairsNow reads the rows of pairs on both sides as they are now, in their order. A pair
// whose table or key is not there any more has no row on either side. It does not look
// whether the schema is that of both sides: inside a freeze there is no time for it, and a
// row under another schema has another digest.
func PairsNow(ctx context.Context, a, b Pool, s *schema.Schema, pairs []Pair) ([]Pair, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	e, closeAll, err := pairEngine(ctx, a, b, s, len(pairs))
	if err != nil {
		return nil, err
	}
	defer closeAll()
	out := make([]Pair, len(pairs))
	rows, places := map[*table][]Difference{}, map[*table][]int{}
	for i, p := range pairs {
		out[i] = Pair{Table: p.Table, Key: p.Key}
		t, key, err := e.key(ctx, p.Table, p.Key)
		if errors.Is(err, ErrKey) {
			continue
		}
		if err != nil {
			return nil, err
		}
		rows[t] = append(rows[t], Difference{Table: p.Table, Key: []string{p.Key}, key: key})
		places[t] = append(places[t], i)
	}
	for t, list := range rows {
		now, err := e.pairsNow(ctx, t, list)
		if err != nil {
			return nil, err
		}
		for n, i := range places[t] {
			out[i] = now[n]
		}
	}
	return out, nil
}

// pairEngine is an engine that reads rows of a and b, one connection each.
func pairEngine(ctx context.Context, a, b Pool, s *schema.Schema, rows int) (*engine, func(), error) {
	sides, closeAll, err := openPools(ctx, []Pool{a, b}, 1)
	if err != nil {
		return nil, nil, err
	}
	e, err := newEngine(ctx, sides[0], sides[1:], s, Options{MaxListed: rows}, nil)
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	return e, closeAll, nil
}

// key finds a table and reads a key of it as a report prints it.
func (e *engine) key(ctx context.Context, tableName, text string) (*table, keyValue, error) {
	for _, t := range e.tables {
		if t.Name == tableName {
			key, err := t.parseKey(ctx, e.workers[0].source, text)
			return t.table, key, err
		}
	}
	return nil, nil, fmt.Errorf("%w: %s has no table %q in database %q", ErrKey, e.source.Name, tableName, e.source.Database)
}

// pairsNow reads the digests of some rows of a table. A row's digest must not depend on which
// others are read beside it, so the form for large rows is taken row by row.
func (e *engine) pairsNow(ctx context.Context, t *table, rows []Difference) ([]Pair, error) {
	w := e.workers[0]
	keys := make([]keyValue, len(rows))
	out := make([]Pair, len(rows))
	for i, d := range rows {
		keys[i] = d.key
		out[i] = Pair{Table: t.Name, Key: d.KeyText()}
	}
	source, err := w.source.digests(ctx, t, keys)
	if err != nil {
		return nil, err
	}
	target, err := w.targets[0].digests(ctx, t, keys)
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i].Source, out[i].Target = source[i], target[i]
	}
	return out, nil
}

// digests are the rows' hashes in hex, empty where there is no such row.
func (r *reader) digests(ctx context.Context, t *table, keys []keyValue) ([]string, error) {
	found, err := r.lookup(ctx, t, keys, false)
	if err != nil && tooLarge(err) {
		found = nil
		for _, k := range keys {
			one, err := r.lookup(ctx, t, []keyValue{k}, false)
			if err != nil && tooLarge(err) {
				one, err = r.lookup(ctx, t, []keyValue{k}, true)
			}
			if err != nil {
				return nil, err
			}
			found = append(found, one...)
		}
		err = nil
	}
	if err != nil {
		return nil, err
	}
	out := make([]string, len(found))
	for i, row := range found {
		if row != nil {
			out[i] = hex.EncodeToString(row.hash[:])
		}
	}
	return out, nil
}
