// Package shardid owns the number of a legacy shard and the name of its landing.
//
// A legacy shard is a number between 0 and 65535 (it must fit the two-byte prefix that a
// fleet-wide vindex puts before a keyspace id). It is printed with at least four decimal
// digits and never in hex: 0123 written as 0x7b, or read as octal 83, moves the wrong shard.
package shardid

import (
	"fmt"
	"strconv"
	"strings"
)

// ID is the number of a legacy shard.
type ID uint16

// Parse reads a shard number in decimal. Leading zeros are padding, not octal. Anything
// but digits (a sign, blanks, 0x, underscores) is an error, because a number that had to
// be guessed at is how a tool gets pointed at the wrong shard.
func Parse(s string) (ID, error) {
	if s == "" {
		return 0, fmt.Errorf("shard number is empty: give a decimal number such as 0123")
	}
	for _, r := range s {
		if r < '0' || r > '9' {
			return 0, fmt.Errorf("shard number %q: found %q, expected decimal digits only, such as 0123", s, r)
		}
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("shard number %q: expected a number between 0 and 65535", s)
	}
	return ID(n), nil
}

// String prints the number with at least four decimal digits.
func (id ID) String() string { return fmt.Sprintf("%04d", uint16(id)) }

// MarshalText makes the printed form the stored one (JSON and YAML alike).
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText is the strict reverse of MarshalText.
func (id *ID) UnmarshalText(b []byte) error {
	v, err := Parse(string(b))
	if err != nil {
		return err
	}
	*id = v
	return nil
}

// placeholder stands for the shard number in a Template.
const placeholder = "{shard}"

// Template names the keyspace that a legacy shard moves into, such as legacy_{shard}. A
// name made by it can be decoded back to the number: that is how a guard knows that a
// landing belongs to the shard it was asked about.
type Template string

// Validate reports a template that names no shard, or names it twice, or makes names that are
// no keyspace's: a / or a : in one is a path or a shard to Vitess.
func (t Template) Validate() error {
	if strings.Count(string(t), placeholder) != 1 {
		return fmt.Errorf("landing template %q: expected exactly one %s, such as legacy_%s", string(t), placeholder, placeholder)
	}
	for _, r := range t.Keyspace(0) {
		if r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return fmt.Errorf("landing template %q: found %q, expected letters, digits, _ and - only", string(t), r)
		}
	}
	return nil
}

// Keyspace is the name of the landing of a shard.
func (t Template) Keyspace(id ID) string {
	return strings.Replace(string(t), placeholder, id.String(), 1)
}

// Decode is the shard whose landing bears the name. Only the name that Keyspace would give
// is accepted: legacy_123 is not 0123's landing.
func (t Template) Decode(keyspace string) (ID, error) {
	prefix, suffix, _ := strings.Cut(string(t), placeholder)
	if len(keyspace) < len(prefix)+len(suffix) || !strings.HasPrefix(keyspace, prefix) || !strings.HasSuffix(keyspace, suffix) {
		return 0, fmt.Errorf("keyspace %q is not a landing: expected a name like %q", keyspace, string(t))
	}
	id, err := Parse(keyspace[len(prefix) : len(keyspace)-len(suffix)])
	if err != nil {
		return 0, fmt.Errorf("keyspace %q is not a landing: %w", keyspace, err)
	}
	if t.Keyspace(id) != keyspace {
		return 0, fmt.Errorf("keyspace %q is not a landing: shard %s would be %q", keyspace, id, t.Keyspace(id))
	}
	return id, nil
}

// Show is how people see a shard everywhere: 0123 (legacy_0123).
func (t Template) Show(id ID) string { return id.String() + " (" + t.Keyspace(id) + ")" }
