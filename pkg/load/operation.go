package load

import (
	"strconv"
	"strings"

	"github.com/vifl/vifl/pkg/load/ledger"
)

// step is one statement of an operation with what it does to rows.
type step struct {
	sql     string
	effects []ledger.Effect
	auto    bool // gives an AUTO_INCREMENT id
}

// operation is what the application wants done at once: one autocommit statement, or a
// transaction.
type operation struct {
	kind     string
	team     int64
	steps    []step
	tx       bool
	rollback bool
	// made are the rows that are there once it is committed, gone those that are not any
	// more (also the earlier versions of made).
	made, gone []*row
}

func (o *operation) effects() []ledger.Effect {
	var out []ledger.Effect
	for _, s := range o.steps {
		out = append(out, s.effects...)
	}
	return out
}

func (o *operation) insert(rows ...*row) {
	t := rows[0].table
	var b strings.Builder
	b.WriteString("INSERT INTO " + t.name + " (")
	for i, c := range t.key {
		b.WriteString(comma(i) + c.name)
	}
	for _, c := range t.values {
		b.WriteString(", " + c.name)
	}
	b.WriteString(") VALUES ")
	s := step{auto: t.auto}
	for n, r := range rows {
		b.WriteString(comma(n) + "(")
		for i, c := range t.key {
			b.WriteString(comma(i) + c.literal(r.key[i]))
		}
		for i, c := range t.values {
			b.WriteString(", " + c.literal(r.values[i]))
		}
		b.WriteString(")")
		s.effects = append(s.effects, ledger.Effect{Table: t.name, Key: r.keyText(), Act: ledger.Insert, Version: r.version, Digest: Digest(r.values...)})
	}
	s.sql = b.String()
	o.steps = append(o.steps, s)
	o.made = append(o.made, rows...)
}

// update changes a row that is there in exactly the version the writer knows: a late
// duplicate of an update would not match.
func (o *operation) update(old, changed *row) {
	t := changed.table
	var b strings.Builder
	b.WriteString("UPDATE " + t.name + " SET " + t.values[t.version].name + " = " + changed.values[t.version])
	for _, i := range t.changed {
		b.WriteString(", " + t.values[i].name + " = " + t.values[i].literal(changed.values[i]))
	}
	b.WriteString(where(changed) + " AND " + t.values[t.version].name + " = " + strconv.FormatUint(uint64(old.version), 10))
	o.steps = append(o.steps, step{sql: b.String(), effects: []ledger.Effect{
		{Table: t.name, Key: changed.keyText(), Act: ledger.Update, Version: changed.version, Digest: Digest(changed.values...)},
	}})
	o.made, o.gone = append(o.made, changed), append(o.gone, old)
}

func (o *operation) remove(r *row) {
	o.steps = append(o.steps, step{sql: "DELETE FROM " + r.table.name + where(r), effects: []ledger.Effect{
		{Table: r.table.name, Key: r.keyText(), Act: ledger.Delete},
	}})
	o.gone = append(o.gone, r)
}

func where(r *row) string {
	var b strings.Builder
	for i, c := range r.table.key {
		if i == 0 {
			b.WriteString(" WHERE ")
		} else {
			b.WriteString(" AND ")
		}
		b.WriteString(c.name + " = " + c.literal(r.key[i]))
	}
	return b.String()
}

func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ", "
}

// The kinds of operations and how many in a hundred are of each.
var mix = []struct {
	kind  string
	share int
}{
	{"insert", 34}, {"insert several", 6}, {"update", 22}, {"delete", 10}, {"post", 16}, {"post rolled back", 4}, {"edit", 8},
}

func (w *writer) pickKind() string {
	n := w.gen.IntN(100)
	for _, m := range mix {
		if n -= m.share; n < 0 {
			return m.kind
		}
	}
	return mix[0].kind
}

// build makes an operation of a kind with new keys and versions. For updates and deletes it
// takes a row of the writer's own (of the team, unless that is 0, when any will do); where
// there is none it becomes an insert.
func (w *writer) build(kind string, team int64) *operation {
	g := w.gen
	pick := func(ok func(*row) bool) *row { return w.own(team, ok) }
	anyTeam := team
	if anyTeam == 0 {
		anyTeam = w.run.teams[g.IntN(len(w.run.teams))]
	}
	o := &operation{kind: kind, team: anyTeam}
	switch kind {
	case "insert several":
		o.insert(g.fresh(messages, anyTeam), g.fresh(messages, anyTeam), g.fresh(messages, anyTeam))
	case "update":
		if r := pick(updatable); r != nil {
			o.team = r.team
			o.update(r, g.next(r))
		}
	case "delete":
		if r := pick(func(*row) bool { return true }); r != nil {
			o.team = r.team
			o.remove(r)
		}
	case "edit":
		o.tx = true
		if r := pick(updatable); r != nil {
			o.team = r.team
			o.update(r, g.next(r))
			if other := w.own(r.team, func(x *row) bool { return x != r }); other != nil {
				o.remove(other)
			}
			o.insert(g.fresh(auditLog, r.team))
		}
	case "post", "post rolled back":
		o.tx, o.rollback = true, kind == "post rolled back"
		counter := pick(func(r *row) bool { return r.table == counters })
		if counter != nil {
			o.team = counter.team
			o.update(counter, g.next(counter))
		}
		m := g.fresh(messages, o.team)
		o.insert(m)
		o.insert(g.reaction(m))
		if counter == nil {
			o.insert(g.fresh(counters, o.team))
		}
		o.insert(g.fresh(auditLog, o.team))
	}
	if len(o.steps) == 0 {
		t := []*table{messages, messages, files, files, apiTokens}[g.IntN(5)]
		o.insert(g.fresh(t, o.team))
	}
	return o
}

func updatable(r *row) bool { return r.table.version >= 0 }

// keepRows bounds what a writer remembers of its own rows, for updates and deletes. The
// ledger remembers all.
const keepRows = 128

// own picks one of the writer's rows: of the team if it is not 0, and fit.
func (w *writer) own(team int64, fit func(*row) bool) *row {
	if len(w.rows) == 0 {
		return nil
	}
	start := w.gen.IntN(len(w.rows))
	for i := range w.rows {
		r := w.rows[(start+i)%len(w.rows)]
		if (team == 0 || r.team == team) && fit(r) {
			return r
		}
	}
	return nil
}

// forget takes rows out of those that the writer touches again.
func (w *writer) forget(rows []*row) {
	for _, gone := range rows {
		for i, r := range w.rows {
			if r == gone {
				w.rows[i] = w.rows[len(w.rows)-1]
				w.rows = w.rows[:len(w.rows)-1]
				break
			}
		}
	}
}

func (w *writer) remember(rows []*row) {
	for _, r := range rows {
		if len(w.rows) < keepRows {
			w.rows = append(w.rows, r)
		} else {
			w.rows[w.gen.IntN(keepRows)] = r
		}
	}
}
