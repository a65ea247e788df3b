package binlog

import (
	"context"
	"errors"

	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/stream/dump"
	"github.com/vifl/vifl/pkg/stream/transaction"
)

// reading is a reader at work, and what it has read.
type reading struct {
	queue  *queue
	cancel context.CancelFunc
	done   chan struct{}
}

// reader is the source's, for all readings of it: it may know what lies before the place
// where one begins. skip is transaction.Options'.
func (w *Worker) reader(source dump.Source, skip func(transaction.GTID) (bool, error)) *transaction.Reader {
	tables := func(ctx context.Context) (*schema.Schema, error) {
		db, err := w.stream.db(ctx)
		if err != nil {
			return nil, err
		}
		s, err := schema.Read(ctx, db, w.stream.database)
		if err != nil {
			return nil, err
		}
		return s, w.stream.fit(s)
	}
	r := transaction.New(source, w.stream.database, tables, w.o.Limit)
	r.Skip = skip
	return r
}

// read begins to read behind from. Up to until, where a batch was begun before, everything
// is kept in memory.
func read(ctx context.Context, reader *transaction.Reader, limit int, from, until position.FilePos) *reading {
	ctx, cancel := context.WithCancel(ctx)
	r := &reading{queue: newQueue(limit, until), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		err := reader.Run(ctx, from, func(p *transaction.Part) error {
			return r.queue.put(ctx, p)
		})
		if err == nil {
			err = errors.New("the reader ended")
		}
		r.queue.end(err)
	}()
	return r
}

func (r *reading) stop() {
	r.cancel()
	<-r.done
}
