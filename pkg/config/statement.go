package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// hidden are the parts of a statement that are not SQL words: quoted texts and comments.
var hidden = regexp.MustCompile("(?s)'(?:[^'\\\\]|\\\\.|'')*'|\"(?:[^\"\\\\]|\\\\.|\"\")*\"|`[^`]*`|/\\*.*?\\*/|(?:#|-- )[^\n]*")

var valueName = regexp.MustCompile(`:[A-Za-z_][A-Za-z_0-9]*`)

// bare is a statement without its quoted texts and comments.
func bare(text string) string { return hidden.ReplaceAllString(text, " ") }

// statementFaults says what is wrong with the names and the number of statements of a text.
func statementFaults(text string, allowed, needed []string) []string {
	text = strings.TrimSpace(bare(text))
	if text == "" {
		return []string{"missing statement"}
	}
	var faults []string
	names := valueName.FindAllString(text, -1)
	for _, name := range needed {
		if !slices.Contains(names, name) {
			faults = append(faults, fmt.Sprintf("does not use %s; without it the statement cannot be confined to one shard and side", name))
		}
	}
	for _, name := range names {
		if !slices.Contains(allowed, name) {
			faults = append(faults, fmt.Sprintf("unknown name %s, expected %s", name, strings.Join(allowed, ", ")))
		}
	}
	if strings.Contains(strings.TrimRight(text, "; \n\t"), ";") {
		faults = append(faults, "found more than one statement, expected one")
	}
	return faults
}

// switchFaults says why a statement cannot be a switch: it runs once for each side and must
// change that side's row only, inside a transaction.
func switchFaults(text string) []string {
	words := strings.Fields(bare(text))
	if len(words) == 0 {
		return nil // said already
	}
	if !strings.EqualFold(words[0], "UPDATE") {
		// DDL and procedures commit by themselves.
		return []string{fmt.Sprintf("found %s, expected a plain UPDATE", words[0])}
	}
	if orOutside(bare(text)) {
		return []string{"found an OR outside parentheses: the statement would change more rows than the one of :shard and :side; expected WHERE … AND …"}
	}
	return nil
}

var orOrParenthesis = regexp.MustCompile(`(?i)[()]|\|\||\bor\b`)

// orOutside reports whether an OR stands outside all parentheses, where it takes the power
// from what an AND beside it demands.
func orOutside(text string) bool {
	depth := 0
	for _, found := range orOrParenthesis.FindAllString(text, -1) {
		switch {
		case found == "(":
			depth++
		case found == ")":
			depth--
		case depth == 0:
			return true
		}
	}
	return false
}
