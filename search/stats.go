package search

import "sync/atomic"

// Stats are counts since the start. The Coordinator counts timeouts, refusals, speculation and new plans of searches
// together with those of its own requests.
type Stats struct {
	// Searches counts the searches, Pages the pages that were requested from replicas, this node's own included.
	Searches, Pages uint64
	// Rows counts the rows of results, Settled the candidates on which the replicas agreed, Reads those that were read
	// by key, Stale those of them that did not match.
	Rows, Settled, Reads, Stale uint64
	// Scanned counts the entries that replicas examined.
	Scanned uint64
}

// counters are the counts of a Searcher, as Stats names them.
type counters struct {
	searches, pages, rows, settled, reads, stale, scanned atomic.Uint64
}

// Stats returns the counts.
func (s *Searcher) Stats() Stats {
	n := &s.counts
	return Stats{
		Searches: n.searches.Load(), Pages: n.pages.Load(), Rows: n.rows.Load(), Settled: n.settled.Load(),
		Reads: n.reads.Load(),
		Stale: n.stale.Load(), Scanned: n.scanned.Load(),
	}
}
