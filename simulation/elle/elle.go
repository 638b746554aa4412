// Package elle checks histories of transactions that read lists and append to them, as the Elle checker does: it
// derives the order of versions from the reads, and reports cycles of dependencies between transactions.
//
// It follows Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations" (VLDB 2020).
// Lists make the order of versions visible: a read of [1 3 2] shows that 3 was appended after 1 and before 2. Only
// strict serializability is checked: an answer also precedes every later call.
//
//	reads ─▶ order of appends of each list ─▶ edges ww, wr, rw, time ─▶ a cycle is an anomaly
//
// It does not search for an order of all transactions, so its cost grows with the number of edges and not
// exponentially.
package elle

import (
	"fmt"
	"maps"
	"slices"
)

// Transaction is a transaction on lists. It reads lists, then appends to lists. Times are from one counter for the
// whole history, so that a smaller time is earlier. A transaction must not be changed during Check.
type Transaction struct {
	// Reads has an entry for each list that was read, also for empty ones. It is nil if the transaction did not return.
	Reads map[string][]int64
	// Appends contains the appended values by list, in order.
	Appends map[string][]int64
	Call    int64
	// Returned is when it returned; 0 means that it is unknown whether it took effect.
	Returned int64
	// Failed means that it certainly did not take effect. No other transaction may see its appends.
	Failed bool
}

// edgeKind is the reason why one transaction must precede another.
type edgeKind uint8

// Kinds are bits, because one pair of transactions may have several.
const (
	// edgeWW: it appended to a list before the other transaction did.
	edgeWW edgeKind = 1 << iota
	// edgeWR: the other transaction read what it appended.
	edgeWR
	// edgeRW: it did not see what the other transaction appended (an anti-dependency).
	edgeRW
	// edgeTime: it had returned when the other transaction was called.
	edgeTime
)

// Check returns the anomalies (Adya's phenomena) in a history of transactions. Each value is appended to a list once.
// The longest read of a list is the order of its appends, and the dependencies between transactions follow from that
// order. It returns nil for a correct history. Texts name the transactions by their index in txns.
func Check(txns []*Transaction) (anomalies []string) {
	g := &appendGraph{txns: txns, writer: map[appendedTo]int{}, edges: make([]map[int]edgeKind, len(txns))}
	for i, t := range txns {
		g.edges[i] = map[int]edgeKind{}
		for _, key := range slices.Sorted(maps.Keys(t.Appends)) {
			for _, v := range t.Appends[key] {
				g.writer[appendedTo{key, v}] = i
			}
		}
	}
	// Without an order of versions there are no dependencies, so the graph is examined only if both find nothing.
	anomalies = append(anomalies, g.orders()...)
	anomalies = append(anomalies, g.reads()...)
	if len(anomalies) > 0 {
		return anomalies // the versions have no order
	}
	g.connect()
	return g.cycles()
}

// appendedTo identifies an append: values are unique within a list.
type appendedTo struct {
	key   string
	value int64
}

// appendGraph is the graph of the dependencies between transactions, which have their index in txns. A key of order is
// a list's name; a list that no transaction read has an empty order.
type appendGraph struct {
	txns []*Transaction
	// writer is the transaction that appended a value.
	writer map[appendedTo]int
	order  map[string][]int64 // of the appends to each list
	// edges has, for each transaction, its successors with all reasons why they come later.
	edges []map[int]edgeKind
	// next has the keys of each map of edges in ascending order, so that a history always gives the same anomaly.
	next [][]int
}

// orders finds the longest read of each list; all others must be prefixes of it.
func (g *appendGraph) orders() (anomalies []string) {
	g.order = map[string][]int64{}
	for _, t := range g.txns {
		for key := range t.Appends {
			// Every list has an order, if only an empty one: it may never have been read.
			g.order[key] = g.order[key][:len(g.order[key]):len(g.order[key])]
		}
		for key, list := range t.Reads {
			if t.Returned != 0 && len(list) > len(g.order[key]) {
				g.order[key] = list
			}
		}
	}
	for i, t := range g.txns {
		for _, key := range slices.Sorted(maps.Keys(t.Reads)) {
			list := t.Reads[key]
			if t.Returned == 0 {
				continue
			}
			// A value that a transaction appended once and that is there twice was applied twice.
			if sorted := slices.Sorted(slices.Values(list)); len(slices.Compact(sorted)) != len(list) {
				anomalies = append(anomalies, fmt.Sprintf("duplicates: transaction %d read %s as %v", i, key, list))
			}
			if !slices.Equal(list, g.order[key][:len(list)]) {
				anomalies = append(anomalies, fmt.Sprintf("incompatible order: transaction %d read %s as %v, others "+
					"as %v", i, key, list, g.order[key]))
			}
		}
	}
	return anomalies
}

// reads finds invalid reads: values of failed transactions (G1a), intermediate values of a transaction (G1b), and
// values that no transaction appended.
func (g *appendGraph) reads() (anomalies []string) {
	for i, t := range g.txns {
		for _, key := range slices.Sorted(maps.Keys(t.Reads)) {
			list := t.Reads[key]
			if t.Returned == 0 {
				continue
			}
			for n, v := range list {
				w, ok := g.writer[appendedTo{key, v}]
				switch {
				case !ok:
					anomalies = append(anomalies, fmt.Sprintf("transaction %d read %d in %s, which was never appended",
						i, v, key))
				case g.txns[w].Failed:
					anomalies = append(anomalies, fmt.Sprintf("G1a: transaction %d read %d in %s, of transaction %d "+
						"that failed", i, v, key, w))
				// Only the last value can show a part of a transaction: the appends of one transaction are adjacent in
				// the order.
				case n == len(list)-1 && w != i:
					if all := g.txns[w].Appends[key]; all[len(all)-1] != v {
						anomalies = append(anomalies, fmt.Sprintf("G1b: transaction %d read %s up to %d, the midst "+
							"of transaction %d", i, key, v, w))
					}
				}
			}
		}
	}
	return anomalies
}

// connect adds the edges between transactions that took effect.
func (g *appendGraph) connect() {
	for _, key := range slices.Sorted(maps.Keys(g.order)) {
		order := g.order[key]
		// Neighbors suffice: paths have the other pairs.
		for n := 1; n < len(order); n++ {
			g.edge(g.writer[appendedTo{key, order[n-1]}], g.writer[appendedTo{key, order[n]}], edgeWW)
		}
		last := -1
		if len(order) > 0 {
			last = g.writer[appendedTo{key, order[len(order)-1]}]
		}
		for i, t := range g.txns {
			list, read := t.Reads[key]
			if t.Returned == 0 {
				continue
			}
			// The version that a transaction read ends with the append of its last value.
			if read && len(list) > 0 {
				g.edge(g.writer[appendedTo{key, list[len(list)-1]}], i, edgeWR)
			}
			// The next append overwrote the version that it read.
			if read && len(list) < len(order) {
				g.edge(i, g.writer[appendedTo{key, order[len(list)]}], edgeRW)
			}
			// Acknowledged appends that are in no read come after the longest read, whose transaction did not see them.
			for _, v := range t.Appends[key] {
				if slices.Contains(order, v) {
					continue
				}
				if last >= 0 {
					g.edge(last, i, edgeWW)
				}
				for k, o := range g.txns {
					if _, read := o.Reads[key]; read && o.Returned != 0 {
						g.edge(k, i, edgeRW)
					}
				}
			}
		}
	}
	// Strict serializability: an answer before a call orders two transactions, even if they share no list.
	for i, a := range g.txns {
		for k, b := range g.txns {
			if a.Returned != 0 && a.Returned < b.Call {
				g.edge(i, k, edgeTime)
			}
		}
	}
}

// edge adds a reason why a transaction precedes another. A transaction does not depend on itself.
func (g *appendGraph) edge(from, to int, kind edgeKind) {
	if from != to {
		g.edges[from][to] |= kind
	}
}

// cycles finds transactions that precede themselves, with the smallest set of edge kinds. G0, G1c, G-single and G2 are
// Adya's names for cycles of writes, of writes and reads, with one anti-dependency, and with several.
func (g *appendGraph) cycles() []string {
	g.next = make([][]int, len(g.edges))
	for i, successors := range g.edges {
		g.next[i] = slices.Sorted(maps.Keys(successors))
	}
	// In this order, the first cycle that is found gets the most specific name.
	for _, c := range []struct {
		name  string
		kinds edgeKind
		// A cycle has exactly one edge of the kind once; 0 means that there is no such kind.
		once edgeKind
	}{
		{"G0", edgeWW, 0}, {"G1c", edgeWW | edgeWR, 0}, {"G-single", edgeWW | edgeWR, edgeRW},
		{"G0 in real time", edgeWW | edgeTime, 0}, {"G1c in real time", edgeWW | edgeWR | edgeTime, 0},
		{"G-single in real time", edgeWW | edgeWR | edgeTime, edgeRW}, {"G2", edgeWW | edgeWR | edgeRW | edgeTime, 0},
	} {
		for i := range g.txns {
			if c.once == 0 {
				if path := g.path(i, i, c.kinds); path != nil {
					return []string{g.describe(c.name, path)}
				}
				continue
			}
			// The cycle begins with the edge of this kind, and returns by the others.
			for _, k := range g.next[i] {
				if g.edges[i][k]&c.once == 0 {
					continue
				}
				if path := g.path(k, i, c.kinds); path != nil {
					return []string{g.describe(c.name, append([]int{i}, path...))}
				}
			}
		}
	}
	return nil
}

// path returns a path with edges of the given kinds, including both ends; nil means that there is none.
func (g *appendGraph) path(from, to int, kinds edgeKind) []int {
	came := map[int]int{}
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		// Breadth-first, so the path has the fewest transactions.
		for _, next := range g.next[queue[0]] {
			// from is in came only when a cycle returns to it, so from may equal to.
			if _, been := came[next]; been || g.edges[queue[0]][next]&kinds == 0 {
				continue
			}
			came[next] = queue[0]
			if next == to {
				path := []int{to}
				for at := came[to]; at != from; at = came[at] {
					path = append(path, at)
				}
				path = append(path, from)
				slices.Reverse(path)
				return path
			}
			queue = append(queue, next)
		}
	}
	return nil
}

// describe describes a cycle. Two transactions that read one version of a list and both appended to it are a lost
// update.
func (g *appendGraph) describe(name string, path []int) string {
	for _, i := range path {
		for _, k := range path {
			// Both transactions appended to the same version of a list, so one of the appends was overwritten.
			for key, list := range g.txns[i].Reads {
				other, read := g.txns[k].Reads[key]
				if i < k && read && slices.Equal(list, other) && len(g.txns[i].Appends[key]) > 0 &&
					len(g.txns[k].Appends[key]) > 0 {
					name = "lost update"
				}
			}
		}
	}
	text := name + ":"
	for _, i := range path {
		text += fmt.Sprintf(" %d (read %v, appended %v)", i, g.txns[i].Reads, g.txns[i].Appends)
	}
	return text
}
