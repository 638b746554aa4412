package listing

import "sync/atomic"

// Stats are counts since the start. The Coordinator counts timeouts, refusals, speculation and new plans of listings
// together with those of its own requests.
type Stats struct {
	// Ordered counts listings that used the partition index, and Scans counts listings of tables without one.
	Ordered, Scans uint64
	// Pages counts the pages that were requested from replicas, this node's own included.
	Pages uint64
	// Keys counts the keys of results, Scanned the keys that replicas examined for them.
	Keys, Scanned uint64
}

type counters struct{ ordered, scans, pages, keys, scanned atomic.Uint64 }

// Stats returns the counts.
func (l *Lister) Stats() Stats {
	n := &l.counts
	return Stats{
		Ordered: n.ordered.Load(), Scans: n.scans.Load(), Pages: n.pages.Load(), Keys: n.keys.Load(),
		Scanned: n.scanned.Load(),
	}
}
