package devcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vifl/vifl/pkg/mysqld"
	"github.com/vifl/vifl/pkg/runas"
)

// programs are the files that the supervisor runs, reachable for the user it becomes.
type programs struct {
	mysql    *mysqld.Installation
	template string // an initialised data folder of mysql
	bin      string // folder of the Vitess programs
	self     []string
}

var vitessPrograms = []string{"vtgate", "vttablet", "vtctld", "vtorc", "mysqlctl"}

// findPrograms looks for everything, and copies into data what the user cannot reach. It
// runs before the supervisor gives up root.
func findPrograms(ctx context.Context, o SuperviseOptions, u runas.User) (*programs, error) {
	inst, err := mysqld.Find(o.MySQLRoot)
	if err != nil {
		return nil, err
	}
	if inst, err = inst.For(u, o.Data); err != nil {
		return nil, err
	}
	p := &programs{mysql: inst, bin: o.Bin, self: append([]string{}, o.Self...)}
	if p.template, err = mysqld.Template(ctx, inst, u); err != nil {
		return nil, err
	}
	if !u.IsZero() {
		copied := filepath.Join(o.Data, "template")
		if err := mysqld.CopyTree(p.template, copied, false); err != nil {
			return nil, fmt.Errorf("local fleet: copy the initialised data folder: %w", err)
		}
		if err := u.Chown(copied); err != nil {
			return nil, fmt.Errorf("local fleet: copy the initialised data folder: %w", err)
		}
		p.template = copied
	}
	reachable := u.CanReach(o.Self[0])
	for _, name := range vitessPrograms {
		path := filepath.Join(o.Bin, name)
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("local fleet: %w: run scripts/setup.sh", err)
		}
		reachable = reachable && u.CanReach(path)
	}
	if reachable {
		return p, nil
	}
	p.bin = filepath.Join(o.Data, "bin")
	if err := errors.Join(os.Mkdir(p.bin, 0o755), os.Chmod(p.bin, 0o755)); err != nil { // whatever the umask
		return nil, fmt.Errorf("local fleet: %w", err)
	}
	for _, name := range vitessPrograms {
		if err := mysqld.CopyTree(filepath.Join(o.Bin, name), filepath.Join(p.bin, name), true); err != nil {
			return nil, fmt.Errorf("local fleet: copy %s for user %s: %w", name, u.Name, err)
		}
	}
	p.self[0] = filepath.Join(p.bin, "self")
	if err := mysqld.CopyTree(o.Self[0], p.self[0], true); err != nil {
		return nil, fmt.Errorf("local fleet: copy %s for user %s: %w", o.Self[0], u.Name, err)
	}
	// The folder stays root's: giving links away would give the originals away.
	return p, nil
}
