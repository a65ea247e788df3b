package copy

// jsonColumn is a JSON column and its place in a row.
type jsonColumn struct {
	place int
	name  string
}

// jsonFix is a document that holds SQL types which its text does not show.
type jsonFix struct{}
