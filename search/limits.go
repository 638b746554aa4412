package search

import "time"

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

func setDefault[T ~int | ~int64](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// BuilderLimits are the rates of a Builder. Zero means the default.
type BuilderLimits struct {
	// BuildPause is the least rest between the steps of a build, of 2,000 rows each: a build takes at most half of a processor.
	BuildPause time.Duration
	// BuildThroughput bounds the bytes of rows that builds read in a second (index_build_throughput). Builder.SetThroughput
	// changes it.
	BuildThroughput int64
	// SweepEntries is how many entries a step of the sweep looks at, SweepPause the rest between steps, and SweepRest that between
	// sweeps: 10,000 entries a second.
	SweepEntries          int
	SweepPause, SweepRest time.Duration
	// RefreshVectors is how many vectors a step adds to graphs, in 0.5 ms each, RefreshPause the rest between steps, and RefreshRest
	// that when no vector waits: graphs take at most half of a processor.
	RefreshVectors            int
	RefreshPause, RefreshRest time.Duration
	// Retry is the rest after a failure.
	Retry time.Duration
}

// withDefaults replaces zero by the defaults.
func (l BuilderLimits) withDefaults() BuilderLimits {
	setDefault(&l.BuildPause, 10*time.Millisecond)
	setDefault(&l.BuildThroughput, 64<<20)
	setDefault(&l.SweepEntries, 1_000)
	setDefault(&l.SweepPause, 100*time.Millisecond)
	setDefault(&l.SweepRest, time.Minute)
	setDefault(&l.RefreshVectors, 50)
	setDefault(&l.RefreshPause, 25*time.Millisecond)
	setDefault(&l.RefreshRest, 200*time.Millisecond)
	setDefault(&l.Retry, 5*time.Second)
	return l
}

// pageLimitMax bounds the candidates that another node can request in one page. Storage ends a page earlier.
const pageLimitMax = 1 << 16
