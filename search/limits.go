package search

// Limits are the bounds of searches. Zero means the default.
type Limits struct {
	// Rows is the most rows in one result: two pages of a client.
	Rows int
	// Bytes bounds the rows of one result. A result has at least one row.
	Bytes int
	// Candidates is the most candidates that one node is asked for at a time.
	Candidates int
	// ReadsInFlight is the most reads by key of one search that run at the same time.
	ReadsInFlight int
	// Pieces is the most ranges of the ring that one round asks for.
	Pieces int
}

// withDefaults replaces zero by the defaults.
func (l Limits) withDefaults() Limits {
	setDefault(&l.Rows, 10_000)
	setDefault(&l.Bytes, 4<<20)
	setDefault(&l.Candidates, 1_000)
	setDefault(&l.ReadsInFlight, 16)
	setDefault(&l.Pieces, 4_096)
	return l
}

func setDefault(v *int, d int) {
	if *v == 0 {
		*v = d
	}
}

// pageLimitMax bounds the candidates that another node can request in one page. Storage ends a page earlier.
const pageLimitMax = 1 << 16
