package hints

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"cqld/row"
)

// aged contains mutations of one table that were first written at about the same time.
type aged struct {
	created   int64 // ns since 1970: when the oldest was written
	mutations []*row.Mutation
}

// ageParts is the precision of the age of mutations that are written or handed over together: they expire at most
// gc_grace_seconds / ageParts early, and never late.
const ageParts = 100

// byAge divides the mutations of a delivery. Hints and batches that replace the delivery expire with the oldest
// mutation of their part, and a batch is dropped as a whole, so mutations of different tables are separated.
func (h *Hints) byAge(d *delivery) (parts []aged) {
	order := make([]int, len(d.mutations))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(d.mutations[a].Table, d.mutations[b].Table), cmp.Compare(d.created[a], d.created[b]))
	})
	catalog := h.view.Schema()
	for _, i := range order {
		m := d.mutations[i]
		spread := time.Duration(0)
		if table := catalog.TableByStorage(m.Table); table != nil {
			spread = grace(table) / ageParts
		}
		n := len(parts)
		if n == 0 || parts[n-1].mutations[0].Table != m.Table || d.created[i]-parts[n-1].created > int64(spread) {
			parts = append(parts, aged{created: d.created[i]})
			n++
		}
		parts[n-1].mutations = append(parts[n-1].mutations, m)
	}
	return parts
}

// gather returns a function for n callbacks. The last one calls done with the first error.
func gather(n int, done func(error)) func(error) {
	var mu sync.Mutex
	var first error
	return func(err error) {
		mu.Lock()
		if n--; first == nil {
			first = err
		}
		last, result := n == 0, first
		mu.Unlock()
		// done is called without the lock, because it may write again.
		if last {
			done(result)
		}
	}
}
