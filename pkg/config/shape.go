package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// shape compares a file's tree with the keys and types of a Config. The YAML library would
// do so too, but in the words of its language, without the key's path, and with the
// beginning of the value that does not fit, which may be a password.
type shape struct {
	lines map[string]int // of each key by its path, such as mains.switch or shards[0].sides
	bad   []problem
}

// problem is one thing that is wrong with the file. Line 0: it is nowhere in it.
type problem struct {
	line int
	text string
}

func (p problem) String() string {
	if p.line == 0 {
		return p.text
	}
	return fmt.Sprintf("line %d: %s", p.line, p.text)
}

// problems is one error of all of them, in the order of the file; what is nowhere in it
// comes last.
func problems(all []problem) error {
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b problem) int {
		switch {
		case a.line == b.line:
			return strings.Compare(a.text, b.text)
		case a.line == 0:
			return 1
		case b.line == 0:
			return -1
		}
		return a.line - b.line
	})
	texts := make([]string, len(all))
	for i, p := range all {
		texts[i] = p.String()
	}
	return errors.New(strings.Join(texts, "; "))
}

func (s *shape) add(line int, path, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if path != "" {
		text = path + ": " + text
	}
	s.bad = append(s.bad, problem{line, text})
}

// line is that of a key, or of the nearest key around it that the file has.
func (s *shape) line(path string) int {
	for path != "" {
		if n := s.lines[path]; n > 0 {
			return n
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return 0
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	idType       = reflect.TypeFor[ID]()
)

// walk compares a node with the type that it will be decoded into.
func (s *shape) walk(n *yaml.Node, t reflect.Type, path string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	empty := n.Kind == yaml.ScalarNode && n.Tag == "!!null"
	switch {
	case t == idType, t == durationType, t.Kind() == reflect.String, t.Kind() == reflect.Int:
		s.leaf(n, t, path)
	case t.Kind() == reflect.Pointer:
		s.walk(n, t.Elem(), path)
	case t.Kind() == reflect.Struct:
		if !empty {
			s.mapping(n, t, path)
		}
	case t.Kind() == reflect.Map:
		s.names(n, t, path)
	case t.Kind() == reflect.Slice:
		s.list(n, t, path)
	}
}

// kind says what a node is, without its value.
func kind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.Tag == "!!null" {
		return "nothing"
	}
	return "a single value"
}

func (s *shape) leaf(n *yaml.Node, t reflect.Type, path string) {
	expected := "a text"
	switch {
	case t == idType:
		expected = "a shard number such as 0123"
	case t == durationType:
		expected = "a time with its unit, such as 500ms, 15s or 5m"
	case t.Kind() == reflect.Int:
		expected = "a whole number"
	}
	if n.Kind != yaml.ScalarNode {
		s.add(n.Line, path, "found %s, expected %s", kind(n), expected)
		return
	}
	err := n.Decode(reflect.New(t).Interface())
	switch {
	case err == nil:
	case t == idType:
		s.add(n.Line, path, "%v", err) // shardid says it better
	default:
		s.add(n.Line, path, "found %q, expected %s", n.Value, expected)
	}
}

func (s *shape) mapping(n *yaml.Node, t reflect.Type, path string) {
	fields := map[string]reflect.Type{}
	var known []string
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("yaml"); key != "" {
			fields[key] = t.Field(i).Type
			known = append(known, key)
		}
	}
	if n.Kind != yaml.MappingNode {
		s.add(n.Line, path, "found %s, expected the keys %s", kind(n), strings.Join(known, ", "))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Value == "<<" {
			s.walk(value, t, path) // a merged mapping, whose keys may be given again
			continue
		}
		at := join(path, key.Value)
		if first := seen[key.Value]; first > 0 {
			s.add(key.Line, at, "it is given twice, first in line %d", first)
			continue
		}
		seen[key.Value] = key.Line
		field, ok := fields[key.Value]
		if !ok {
			s.add(key.Line, at, "unknown key, expected one of %s", strings.Join(known, ", "))
			continue
		}
		s.lines[at] = key.Line
		s.walk(value, field, at)
	}
}

// names is a mapping whose keys are free, as a shard's sides.
func (s *shape) names(n *yaml.Node, t reflect.Type, path string) {
	if n.Kind != yaml.MappingNode {
		s.add(n.Line, path, "found %s, expected keys with a value each, such as {a: 10.0.0.1:3306, b: 10.0.0.2:3306}", kind(n))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := join(path, key.Value)
		if seen[key.Value] {
			s.add(key.Line, at, "it is given twice")
		}
		seen[key.Value] = true
		s.lines[at] = key.Line
		s.walk(n.Content[i+1], t.Elem(), at)
	}
}

func (s *shape) list(n *yaml.Node, t reflect.Type, path string) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return // the key with nothing behind it is the empty list
	}
	if n.Kind != yaml.SequenceNode {
		s.add(n.Line, path, "found %s, expected a list, such as [first, second]", kind(n))
		return
	}
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		s.lines[at] = item.Line
		if item.Kind == yaml.ScalarNode && item.Tag == "!!null" {
			s.add(item.Line, at, "found an item with nothing in it: fill it, or remove it")
			continue
		}
		s.walk(item, t.Elem(), at)
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// indented finds a tab among the blanks that a line begins with.
var indented = regexp.MustCompile(`^ *\t`)

// broken says where a file stops being YAML. The library names the line in which the block
// around the fault begins; the longest beginning of the file that can be read is nearer.
func broken(raw []byte, err error) problem {
	lines := strings.SplitAfter(string(raw), "\n")
	for n := len(lines) - 1; n >= 0; n-- {
		if yaml.Unmarshal([]byte(strings.Join(lines[:n], "")), new(yaml.Node)) != nil {
			continue
		}
		if indented.MatchString(lines[n]) {
			return problem{n + 1, "found a tab before the key, expected blanks"}
		}
		return problem{n + 1, "this is no YAML from here on (" + reason(err) + "): look for a missing quote, bracket or colon, and at the blanks before the keys"}
	}
	return problem{0, "this is no YAML: " + reason(err)}
}

// libraryLine is how the YAML library begins its messages.
var libraryLine = regexp.MustCompile(`^yaml: (line \d+: )?`)

func reason(err error) string { return libraryLine.ReplaceAllString(err.Error(), "") }
