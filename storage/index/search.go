package index

// Page has the candidates of one step, up to and including Last.
type Page struct {
	Candidates []Candidate
	Last       Position // up to which the step has looked; nil if it looked at nothing
	More       bool     // there may be further candidates behind Last
	Scanned    int      // entries that were looked at
}

// Candidate is a row, or a partition, that matches by what this node stores.
type Candidate struct {
	At Position
	// Page is the row as a read of it by its key returns it (row.PageReader). It is nil for a partition.
	Page []byte
}
