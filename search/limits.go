package search

import (
	"cmp"
	"time"
)

// Limits are the bounds of searches. Zero means the default. They bound memory and time of one search, not of all:
// those are bounded by the reservations of the coordinator.
type Limits struct {
	// Rows is the maximum number of rows in one result: two pages of a client.
	Rows int
	// Bytes bounds the rows of one result. A result has at least one row.
	Bytes int
	// Candidates is the maximum number of candidates that one request to a node returns.
	Candidates int
	// ReadsInFlight bounds the concurrent reads by key of one search.
	ReadsInFlight int
	// Pieces is the maximum number of ranges of the ring that one round requests.
	Pieces int
}

// withDefaults replaces zero by the defaults.
func (l Limits) withDefaults() Limits {
	l.Rows = cmp.Or(l.Rows, 10_000)
	l.Bytes = cmp.Or(l.Bytes, 4<<20)
	l.Candidates = cmp.Or(l.Candidates, 1_000)
	l.ReadsInFlight = cmp.Or(l.ReadsInFlight, 16)
	l.Pieces = cmp.Or(l.Pieces, 4_096)
	return l
}

// BuilderLimits are the rates of a Builder. Zero means the default.
type BuilderLimits struct {
	// BuildPause is the least rest between the steps of a build, of 2,000 rows each: a build takes at most half of a
	// processor.
	BuildPause time.Duration
	// BuildThroughput bounds the bytes of rows that builds read in a second (index_build_throughput).
	// Builder.SetThroughput changes it.
	BuildThroughput int64
	// SweepEntries is the number of entries that a step of the sweep examines, SweepPause the rest between steps, and
	// SweepRest the rest between sweeps: 10,000 entries a second.
	SweepEntries          int
	SweepPause, SweepRest time.Duration
	// RefreshVectors is the number of vectors that a step adds to graphs, in 0.5 ms each, RefreshPause the rest
	// between steps, and RefreshRest the rest when no vector waits: graphs use at most half of a processor.
	RefreshVectors            int
	RefreshPause, RefreshRest time.Duration
	// Retry is the rest after a failure.
	Retry time.Duration
}

// withDefaults replaces zero by the defaults.
func (l BuilderLimits) withDefaults() BuilderLimits {
	l.BuildPause = cmp.Or(l.BuildPause, 10*time.Millisecond)
	l.BuildThroughput = cmp.Or(l.BuildThroughput, 64<<20)
	l.SweepEntries = cmp.Or(l.SweepEntries, 1_000)
	l.SweepPause = cmp.Or(l.SweepPause, 100*time.Millisecond)
	l.SweepRest = cmp.Or(l.SweepRest, time.Minute)
	l.RefreshVectors = cmp.Or(l.RefreshVectors, 50)
	l.RefreshPause = cmp.Or(l.RefreshPause, 25*time.Millisecond)
	l.RefreshRest = cmp.Or(l.RefreshRest, 200*time.Millisecond)
	l.Retry = cmp.Or(l.Retry, 5*time.Second)
	return l
}

// pageLimitMax bounds the candidates that another node can request in one page. Storage ends a page earlier.
const pageLimitMax = 1 << 16
