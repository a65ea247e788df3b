package seed

import (
	"context"
	"fmt"
	"strings"

	"github.com/vifl/vifl/pkg/legacy"
	"github.com/vifl/vifl/pkg/mysqlconn"
	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/position"
	"github.com/vifl/vifl/pkg/schema"
	"github.com/vifl/vifl/pkg/seed/clone"
)

// clone fills the scratch server with all of the donor's data files.
func (j *job) clone(ctx context.Context) error {
	src, err := j.openSource(ctx)
	if err != nil {
		return err
	}
	defer src.Close()
	donor := src
	if j.spec.Donor != nil {
		if donor, err = j.openDonor(ctx, src); err != nil {
			return err
		}
		defer donor.Close()
	}
	version, err := programVersion(ctx, j.inst)
	if err != nil {
		return err
	}
	shared, err := clone.Check(ctx, donor.DB(), donor.Target().String(), version)
	if err != nil {
		return err
	}
	need, err := j.enoughRoom(ctx, donor, "")
	if err != nil {
		return err
	}
	s := j.scratch
	if err := s.initialise(ctx, shared.Arguments()...); err != nil {
		return err
	}
	// performance_schema holds the clone's position, also after the restart.
	// The plugin is what shows it. Neither leaves a trace in the data.
	settings := append(append(loadSettings(j.bufferPool(need)), "--performance-schema=ON", "--plugin-load-add=mysql_clone.so"), shared.Arguments()...)
	if err := s.start(ctx, settings...); err != nil {
		return err
	}
	j.enter(PhaseFill, "cloning "+donor.Target().String())
	if err := j.cloneInto(ctx, donor.Target()); err != nil {
		return err
	}
	id, err := donor.Identity(ctx)
	if err != nil {
		return err
	}
	j.enter(PhaseConvert, "taking out what belongs to the donor")
	if err := s.start(ctx, append(settings, "--skip-grant-tables")...); err != nil {
		return err
	}
	digest, err := j.convert(ctx, src, id)
	if err != nil {
		return err
	}
	if err := s.makeAccounts(ctx, "root", j.spec.Landing); err != nil {
		return err
	}
	return j.record(ctx, digest)
}

// cloneInto runs the clone and waits until the scratch server has ended behind it.
func (j *job) cloneInto(ctx context.Context, donor mysqlconn.Target) error {
	s := j.scratch
	db, err := s.open(ctx, "root")
	if err != nil {
		return err
	}
	defer db.Close()
	err = clone.Run(ctx, db, donor, func(done, total uint64) {
		j.out.send(Event{Phase: PhaseFill, BytesDone: done, BytesTotal: total})
	})
	if err != nil {
		return err
	}
	select {
	case <-s.proc.Exited():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: wait for its end after the clone: %w", s.name, ctx.Err())
	}
}

// convert reads the position and makes the clone a server of its own. It returns the digest
// of the shard's tables.
func (j *job) convert(ctx context.Context, src *legacy.Server, donor legacy.Identity) (string, error) {
	s := j.scratch
	db, err := s.open(ctx, "root")
	if err != nil {
		return "", err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.name, err)
	}
	defer conn.Close()
	p, size, err := clone.Position(ctx, conn, donor.ServerUUID)
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.name, err)
	}
	if j.spec.Donor != nil {
		if p, err = clone.SourcePosition(ctx, conn, j.spec.source().ServerUUID); err != nil {
			return "", fmt.Errorf("%s: %w", s.name, err)
		}
	}
	// A position of another server, or one that the source never had, must not be streamed
	// from.
	end, err := src.Position(ctx)
	if err == nil {
		var order int
		if order, err = position.Compare(p, end); err == nil && order > 0 {
			err = fmt.Errorf("the clone is from %s, but %s ends at %s: was it reset?", p, src.Target(), end)
		}
	}
	if err != nil {
		return "", err
	}
	j.result.Position, j.result.Bytes = p, size
	dropped, err := clone.Convert(ctx, conn, j.spec.Database)
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.name, err)
	}
	if len(dropped) > 0 {
		j.result.LeftOut = dropped
		j.say("left out: " + strings.Join(dropped, ", "))
	}
	tables, err := schema.Read(ctx, conn, j.spec.Database)
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.name, err)
	}
	return tables.Digest(), nil
}

// openDonor connects to a replica of the source, and makes sure that it is one whose data
// says exactly how far it has applied.
func (j *job) openDonor(ctx context.Context, src *legacy.Server) (*legacy.Server, error) {
	target := *j.spec.Donor
	if target.Name == "" {
		target.Name = "donor of " + j.spec.Shard.String()
	}
	donor, err := legacy.Open(ctx, target, j.spec.Shard, j.spec.StreamSide, j.spec.Database)
	if err != nil {
		return nil, err
	}
	if err := clone.CheckReplica(ctx, donor, src.Target().String(), j.spec.source().ServerUUID); err != nil {
		_ = donor.Close()
		return nil, err
	}
	return donor, nil
}

// CheckClone says whether a seed by clone from this donor would be refused, before anything
// is touched: a *clone.Refused then.
func CheckClone(ctx context.Context, spec Spec, donor *legacy.Server) error {
	inst, err := mysqld.Find(spec.MySQLRoot)
	if err != nil {
		return fmt.Errorf("seed %s: %w", spec.Shard, err)
	}
	version, err := programVersion(ctx, inst)
	if err != nil {
		return fmt.Errorf("seed %s: %w", spec.Shard, err)
	}
	_, err = clone.Check(ctx, donor.DB(), donor.Target().String(), version)
	return err
}

// programVersion is that of the mysqld which a scratch server runs.
func programVersion(ctx context.Context, inst *mysqld.Installation) (legacy.Version, error) {
	line, err := inst.Version(ctx, userOfNobody)
	if err != nil {
		return legacy.Version{}, err
	}
	_, rest, ok := strings.Cut(line, "Ver ")
	if !ok {
		return legacy.Version{}, fmt.Errorf("%s: version %q: expected Ver and three numbers", inst.Program(), line)
	}
	word, _, _ := strings.Cut(rest, " ")
	return legacy.ParseVersion(word)
}
