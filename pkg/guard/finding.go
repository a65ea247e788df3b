// Package guard owns what speaks against a move: preflight checks, which look at servers
// before anything is done, and refusals, which look at what was observed right before a
// switch. One check, one file; refusals are pure functions over Observed.
//
// It decides and changes nothing. A refusal cannot be overridden, except by a greater
// maximal age or lag.
package guard

// Level is how much a finding weighs.
type Level string

// The levels. Only Refused stops a verb.
const (
	OK      Level = "ok"
	Warning Level = "warning"
	Refuse  Level = "refused"
)

// Finding is what one check found on one server.
type Finding struct {
	ID       string `json:"id"` // P07, R12: stable, documented in docs/refusals.md
	Name     string `json:"name"`
	Level    Level  `json:"level"`
	Server   string `json:"server"`
	Found    string `json:"found"`
	Expected string `json:"expected,omitempty"`
	Remedy   string `json:"remedy,omitempty"`
}

// Refused are the findings that stop a verb.
func Refused(all []Finding) []Finding {
	var out []Finding
	for _, f := range all {
		if f.Level == Refuse {
			out = append(out, f)
		}
	}
	return out
}
