package legacy

import (
	"fmt"
	"strconv"
	"strings"
)

// Version is a server's version, such as 8.0.36.
type Version struct {
	Major, Minor, Patch int
	// Text is what the server says, with its suffix.
	Text string
}

// ParseVersion reads @@version. What follows the numbers (8.0.36-28-log) is kept in Text.
func ParseVersion(text string) (Version, error) {
	v := Version{Text: text}
	numbers, _, _ := strings.Cut(text, "-")
	parts := strings.Split(numbers, ".")
	if len(parts) != 3 {
		return v, fmt.Errorf("server version %q: expected three numbers such as 8.0.36", text)
	}
	for i, into := range []*int{&v.Major, &v.Minor, &v.Patch} {
		n, err := strconv.Atoi(parts[i])
		if err != nil {
			return v, fmt.Errorf("server version %q: expected three numbers such as 8.0.36", text)
		}
		*into = n
	}
	return v, nil
}

// AtLeast compares the numbers only.
func (v Version) AtLeast(major, minor, patch int) bool {
	if v.Major != major {
		return v.Major > major
	}
	if v.Minor != minor {
		return v.Minor > minor
	}
	return v.Patch >= patch
}

// MariaDB reports a server whose statements and columns have other names.
func (v Version) MariaDB() bool { return strings.Contains(strings.ToLower(v.Text), "mariadb") }

// Supported reports a MySQL in the range that this package is written for.
func (v Version) Supported() bool { return !v.MariaDB() && v.AtLeast(8, 0, 26) }

// binaryLogStatus is the statement for the end of the binlog: renamed in 8.2, and the old
// name is gone in 8.4.
func (v Version) binaryLogStatus() string {
	if v.AtLeast(8, 2, 0) {
		return "SHOW BINARY LOG STATUS"
	}
	return "SHOW MASTER STATUS"
}
