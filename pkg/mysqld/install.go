// Package mysqld owns mysqld processes that are ours: scratch servers of seeds, the local
// fleet, tests. It finds an installation, initialises data folders, starts and stops
// servers. A server dies with the process that started it.
//
// It knows nothing of what a server is for, and never touches a server it did not start.
package mysqld

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/vifl/vifl/pkg/runas"
)

// Installation is a MySQL server's programs on this machine.
type Installation struct {
	// Root is the folder that has bin/mysqld, as Vitess' VT_MYSQL_ROOT.
	Root string
	// Cnf is a file with a [mysqld] section that this server needs to start at all; empty
	// when it needs none.
	Cnf string
}

// programFolders are where a mysqld is found below an installation's root.
var programFolders = []string{"bin", "sbin", "libexec"}

// Find looks for a MySQL server: in root when that is given, then in $VT_MYSQL_ROOT, in
// .tools/mysql beside the folder of our own program, in .tools/mysql of the module that
// the working folder is in, and on PATH. A place that was named (root, VT_MYSQL_ROOT) and
// has no server is an error: another one would not be what was asked for.
func Find(root string) (*Installation, error) {
	for _, named := range []struct{ how, root string }{{"mysql_root", root}, {"VT_MYSQL_ROOT", os.Getenv("VT_MYSQL_ROOT")}} {
		if named.root == "" {
			continue
		}
		if i := at(named.root); i != nil {
			return i, nil
		}
		return nil, fmt.Errorf("mysqld: %s is %s, which has no bin/mysqld: correct it, or leave it out", named.how, named.root)
	}
	var tried []string
	for _, dir := range ownTools() {
		if i := at(dir); i != nil {
			return i, nil
		}
		tried = append(tried, dir)
	}
	if path, err := exec.LookPath("mysqld"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			if i := at(filepath.Dir(filepath.Dir(real))); i != nil {
				return i, nil
			}
		}
	}
	return nil, fmt.Errorf("mysqld: no MySQL server found (looked in %s and on PATH): run scripts/setup.sh, or set VT_MYSQL_ROOT", strings.Join(tried, ", "))
}

// ownTools are the folders in which scripts/setup.sh may have left a server.
func ownTools() []string {
	var dirs []string
	if exe, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(exe); err == nil {
			dirs = append(dirs, filepath.Join(filepath.Dir(filepath.Dir(real)), ".tools", "mysql"))
		}
	}
	wd, err := os.Getwd()
	if err != nil {
		return dirs
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return append(dirs, filepath.Join(dir, ".tools", "mysql"))
		}
		if dir == filepath.Dir(dir) {
			return dirs
		}
	}
}

func at(root string) *Installation {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil
	}
	i := &Installation{Root: abs}
	if i.Program() == "" {
		return nil
	}
	if cnf := filepath.Join(abs, "mysqld.cnf"); fileExists(cnf) {
		i.Cnf = cnf
	}
	return i
}

// Program is the path of mysqld, empty when it is not there.
func (i *Installation) Program() string {
	for _, folder := range programFolders {
		if p := filepath.Join(i.Root, folder, "mysqld"); fileExists(p) {
			return p
		}
	}
	return ""
}

// Version is what mysqld --version prints, run as the user.
func (i *Installation) Version(ctx context.Context, u runas.User) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, i.Program(), "--no-defaults", "--version")
	cmd.Dir = "/"
	u.Apply(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("mysqld: %s --version: %w: %s", i.Program(), err, strings.TrimSpace(string(out)))
	}
	return strings.TrimSpace(string(out)), nil
}

// For is the installation that the user can run: this one, or, when the user cannot reach
// it (a clone in root's home), a copy in dir, which the user must be able to reach. Files
// are linked rather than copied where that is possible.
func (i *Installation) For(u runas.User, dir string) (*Installation, error) {
	if u.IsZero() {
		return i, nil
	}
	// Tried, not worked out: libraries may lie anywhere.
	if _, err := i.Version(context.Background(), u); err == nil && (i.Cnf == "" || u.CanReach(i.Cnf)) {
		return i, nil
	}
	copied := &Installation{Root: filepath.Join(dir, "mysql")}
	if copied.Program() == "" {
		tmp, err := os.MkdirTemp(dir, ".mysql")
		if err != nil {
			return nil, fmt.Errorf("mysqld: copy %s for user %s: %w", i.Root, u.Name, err)
		}
		if err := i.copyTo(tmp); err != nil {
			_ = os.RemoveAll(tmp)
			return nil, fmt.Errorf("mysqld: copy %s for user %s: %w", i.Root, u.Name, err)
		}
		// Somebody else may have put it there meanwhile; theirs is as good.
		if err := os.Rename(tmp, copied.Root); err != nil {
			_ = os.RemoveAll(tmp)
			if copied.Program() == "" {
				return nil, fmt.Errorf("mysqld: copy %s for user %s: %w", i.Root, u.Name, err)
			}
		}
	}
	if i.Cnf != "" {
		copied.Cnf = filepath.Join(copied.Root, filepath.Base(i.Cnf))
	}
	if _, err := copied.Version(context.Background(), u); err != nil {
		return nil, fmt.Errorf("mysqld: user %s can run neither %s nor a copy of it in %s: %w", u.Name, i.Program(), dir, err)
	}
	return copied, nil
}

func (i *Installation) copyTo(dst string) error {
	if err := os.Chmod(dst, 0o755); err != nil {
		return err
	}
	folders := append([]string{"lib", "lib64", "share"}, programFolders...)
	if i.Root == "/usr" {
		return errors.New("a system-wide installation that the user cannot run: mend its permissions")
	}
	for _, folder := range folders {
		src := filepath.Join(i.Root, folder)
		if _, err := os.Stat(src); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := CopyTree(src, filepath.Join(dst, folder), true); err != nil {
			return err
		}
	}
	if i.Cnf == "" {
		return nil
	}
	return copyFile(i.Cnf, filepath.Join(dst, filepath.Base(i.Cnf)), 0o644)
}

// CopyTree copies a folder or file. Symbolic links that stay inside are kept, others are
// followed. With share, files that everybody may read are hard-linked where the file
// system allows it: for programs, never for data.
func CopyTree(src, dst string, share bool) error {
	root, err := filepath.EvalSymlinks(src)
	if err != nil {
		return err
	}
	return copyNode(root, root, dst, share)
}

func copyNode(root, src, dst string, share bool) error {
	info, err := os.Lstat(src)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(src)
		if err != nil {
			return err
		}
		inside := filepath.Join(filepath.Dir(src), target)
		if !filepath.IsAbs(target) && strings.HasPrefix(inside, root+"/") {
			return os.Symlink(target, dst)
		}
		real, err := filepath.EvalSymlinks(src)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // leads nowhere there, so it is not missed here
		}
		if err != nil {
			return err
		}
		return copyNode(real, real, dst, share)
	}
	if !info.IsDir() {
		if !info.Mode().IsRegular() {
			return nil
		}
		mode := info.Mode().Perm()
		if share {
			readable := mode&0o004 != 0 && (mode&0o100 == 0) == (mode&0o001 == 0)
			if readable && os.Link(src, dst) == nil {
				return nil
			}
			mode |= 0o044
			if mode&0o100 != 0 {
				mode |= 0o011
			}
		}
		return copyFile(src, dst, mode)
	}
	mode := fs.FileMode(0o750)
	if share {
		mode = 0o755
	}
	if err := os.Mkdir(dst, mode); err != nil {
		return err
	}
	// As with files: the umask must not decide.
	if err := os.Chmod(dst, mode); err != nil {
		return err
	}
	entries, err := os.ReadDir(src)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := copyNode(root, filepath.Join(src, e.Name()), filepath.Join(dst, e.Name()), share); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(src, dst string, mode fs.FileMode) error {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	// The mode by hand: what the umask takes away, the server's user would lack.
	err = errors.Join(err, out.Chmod(mode), out.Close())
	return err
}

func fileExists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
