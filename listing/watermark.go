package listing

import (
	"bytes"
	"slices"
)

// position is a place in a listing: at a key, before all keys, or after all.
type position struct {
	key   []byte
	place int8
}

// The places of a position.
const (
	beforeAll = -1
	atKey     = 0
	afterAll  = 1
)

// compare compares positions in the order of the listing.
func (op *orderedOp) compare(a, b position) int {
	if a.place != atKey || b.place != atKey {
		return int(a.place) - int(b.place)
	}
	return compareKeys(a.key, b.key, op.req.Reversed)
}

// reached returns the position that as many nodes of the quota have reached as it needs.
func (op *orderedOp) reached(q *quota) position {
	if q.need == 0 {
		return position{place: afterAll}
	}
	positions := make([]position, 0, len(q.nodes))
	for _, n := range q.nodes {
		positions = append(positions, n.position)
	}
	slices.SortFunc(positions, func(a, b position) int { return op.compare(b, a) })
	return positions[q.need-1]
}

// mergeLocked moves the watermark and adds the keys up to it to the result. It returns true if the result is complete.
func (op *orderedOp) mergeLocked() (complete bool) {
	to := position{place: afterAll}
	for i := range op.quotas {
		if reached := op.reached(&op.quotas[i]); op.compare(reached, to) < 0 {
			to = reached
		}
	}
	if op.compare(to, op.watermark) <= 0 {
		return false
	}
	var keys [][]byte
	rest := 0
	for _, n := range op.nodes {
		i := 0
		for i < len(n.keys) && op.compare(position{key: n.keys[i]}, to) <= 0 {
			if op.compare(position{key: n.keys[i]}, op.watermark) > 0 {
				keys = append(keys, n.keys[i])
			}
			i++
		}
		n.keys = n.keys[i:]
		rest += len(n.keys)
	}
	slices.SortFunc(keys, func(a, b []byte) int { return compareKeys(a, b, op.req.Reversed) })
	keys = slices.CompactFunc(keys, bytes.Equal)
	op.watermark = to
	result := &op.result
	for _, key := range keys {
		if len(result.Keys) == op.limit || len(result.Keys) > 0 && op.bytes+len(key) > op.l.limits.Bytes {
			result.More, op.watermark = true, position{key: result.Keys[len(result.Keys)-1]}
			return true
		}
		result.Keys = append(result.Keys, key)
		op.bytes += len(key)
	}
	result.More = to.place != afterAll || rest > 0
	return !result.More || len(result.Keys) == op.limit
}

// partialLocked reports whether the request's Patience is over and something is known.
func (op *orderedOp) partialLocked() bool {
	return op.watermark.place == atKey && op.req.Patience > 0 && op.l.clock.Monotonic()-op.started >= op.req.Patience
}

// neededLocked marks and returns the nodes that must be asked for the watermark to move. It is not ok if it cannot move any more.
func (op *orderedOp) neededLocked() (asked []*node, ok bool) {
	for {
		var best *node
		most := 0
		for _, n := range op.nodes {
			if n.state != nodeReady || op.compare(n.position, op.watermark) > 0 {
				continue
			}
			helps := 0
			for i := range op.quotas {
				if q := &op.quotas[i]; slices.Contains(q.nodes, n) && op.expected(q, false) < q.need {
					helps++
				}
			}
			// A node that has returned a page has fewer keys left than one that was not asked before.
			if helps > most || helps == most && helps > 0 && !best.asked && n.asked {
				best, most = n, helps
			}
		}
		if best == nil {
			break
		}
		best.state = nodeRequested
		asked = append(asked, best)
	}
	for i := range op.quotas {
		if q := &op.quotas[i]; op.expected(q, true) < q.need {
			for _, n := range asked {
				n.state = nodeReady
			}
			return nil, false
		}
	}
	return asked, true
}

// expected returns how many nodes of a quota are behind the watermark or have a request for a page. Slow nodes count only if slow
// is set.
func (op *orderedOp) expected(q *quota, slow bool) (count int) {
	for _, n := range q.nodes {
		if op.compare(n.position, op.watermark) > 0 || n.state == nodeRequested && (slow || !n.slow) {
			count++
		}
	}
	return count
}
