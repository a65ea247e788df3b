package clone

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/vifl/vifl/pkg/legacy"
)

// Settings are what a recipient must share with its donor.
type Settings struct {
	CharacterSet, Collation, DataFilePath string
}

// Arguments are the recipient's start arguments for them.
func (s Settings) Arguments() []string {
	return []string{"--character-set-server=" + s.CharacterSet, "--collation-server=" + s.Collation, "--innodb-data-file-path=" + s.DataFilePath}
}

// Refused is a donor that cannot be cloned from.
type Refused struct {
	Donor string
	Why   []string // each with its remedy
}

func (r *Refused) Error() string {
	return fmt.Sprintf("%s cannot be cloned from: %s", r.Donor, strings.Join(r.Why, "; "))
}

// Check says whether a donor can be cloned into a server of the given version, and with
// which settings. All that is in the way is reported at once, as a *Refused.
func Check(ctx context.Context, donor *sql.DB, name string, recipient legacy.Version) (Settings, error) {
	var s Settings
	var bad []string
	add := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	var versionText, pageSize, lowerCase string
	err := donor.QueryRowContext(ctx, "SELECT @@version, @@innodb_page_size, @@lower_case_table_names, @@character_set_server, @@collation_server, @@innodb_data_file_path").
		Scan(&versionText, &pageSize, &lowerCase, &s.CharacterSet, &s.Collation, &s.DataFilePath)
	if err != nil {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	version, err := legacy.ParseVersion(versionText)
	if err != nil {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	status := "not installed"
	err = donor.QueryRowContext(ctx, "SELECT plugin_status FROM information_schema.plugins WHERE plugin_name='clone'").Scan(&status)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	if status != "ACTIVE" {
		add("the clone plugin is %s, expected ACTIVE: an administrator may run INSTALL PLUGIN clone SONAME 'mysql_clone.so' there (vifl never does), or seed by copy", status)
	}
	if !compatible(version, recipient) {
		add("its version is %s, the scratch server's %s, expected the same series (below 8.0.37 the very same version): use such a server (tools.mysql_root), or seed by copy", version.Text, recipient.Text)
	}
	if pageSize != "16384" {
		add("innodb_page_size is %s, expected 16384 as the tablets have: seed by copy", pageSize)
	}
	if lowerCase != "0" {
		add("lower_case_table_names is %s, expected 0 as the tablets have: seed by copy", lowerCase)
	}
	others, err := list(ctx, donor, "SELECT CONCAT(table_schema,'.',table_name,' (',IFNULL(engine,'?'),')') FROM information_schema.tables "+
		"WHERE table_type='BASE TABLE' AND engine<>'InnoDB' AND table_schema NOT IN ('mysql','sys','performance_schema','information_schema') ORDER BY 1 LIMIT 20")
	if err != nil {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	if len(others) > 0 {
		add("tables of other engines than InnoDB would arrive empty: %s: convert them, or seed by copy", strings.Join(others, ", "))
	}
	if granted, err := hasBackupAdmin(ctx, donor); err != nil {
		return s, fmt.Errorf("%s: %w", name, err)
	} else if !granted {
		add("the account has no BACKUP_ADMIN there: grant it")
	}
	if len(bad) > 0 {
		return s, &Refused{Donor: name, Why: bad}
	}
	return s, nil
}

// compatible is MySQL's own rule: until 8.0.36 donor and recipient must be the same
// version, from 8.0.37 on the same series.
func compatible(donor, recipient legacy.Version) bool {
	if donor.Major != recipient.Major || donor.Minor != recipient.Minor {
		return false
	}
	if donor.Patch == recipient.Patch {
		return true
	}
	return donor.AtLeast(8, 0, 37) && recipient.AtLeast(8, 0, 37)
}

func hasBackupAdmin(ctx context.Context, donor *sql.DB) (bool, error) {
	grants, err := list(ctx, donor, "SHOW GRANTS")
	if err != nil {
		return false, err
	}
	for _, g := range grants {
		upper := strings.ToUpper(g)
		if strings.Contains(upper, "ON *.*") && (strings.Contains(upper, "BACKUP_ADMIN") || strings.Contains(upper, "ALL PRIVILEGES")) {
			return true, nil
		}
	}
	return false, nil
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// list reads the first column.
func list(ctx context.Context, q querier, query string, args ...any) ([]string, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, rows.Err()
}
