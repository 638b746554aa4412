package view

import (
	"testing"

	"cqld/internal/invariant"
	"cqld/internal/invariant/invarianttest"
	"cqld/row"
)

// TestInvariantsFire breaks the invariants of reads of views, each as a bug in a source or in the page would.
func TestInvariantsFire(t *testing.T) {
	key := row.NewPartitionKey([]byte("k"))
	at := func(clustering string) keptRow { return keptRow{key: key, clustering: []byte(clustering)} }
	page := func(rows ...keptRow) *kept {
		k := &kept{rows: rows}
		for i := range rows {
			k.bytes += rows[i].size()
		}
		return k
	}
	slice := func(start, end string) row.Slice { return row.Slice{Start: []byte(start), End: []byte(end)} }
	cases := map[string]func(){
		"row before its predecessor": func() { page(at("b"), at("a")).check(1) },
		"row before its successor":   func() { page(at("b"), at("a")).check(0) },
		"row twice":                  func() { page(at("a"), at("a")).check(1) },
		"bytes removed twice": func() {
			k := page(at("a"), at("b"))
			k.bytes = 50
			k.remove(1)
			k.check(0)
		},
		"page ends before its last row": func() {
			page(at("a"), at("b")).writeAfter(&row.Position{Key: key, Clustering: []byte("a")})
		},
		"two answers": func() {
			op := &readOp{running: true}
			op.answered(answer{})
			op.answered(answer{})
		},
		"overlapping intervals": func() { checkPlaces([]row.Slice{slice("a", "c"), slice("b", "d")}) },
		"interval after the end": func() {
			checkPlaces([]row.Slice{{Start: []byte("a")}, slice("b", "c")})
		},
		"empty interval": func() { checkPlaces([]row.Slice{slice("b", "a")}) },
		"key too long":   func() { AppendTerm(nil, row.PartitionKey{Bytes: make([]byte, keyMax+1)}, nil) },
	}
	if invariant.Enabled {
		cases["bytes that do not add up"] = func() {
			k := page(at("a"))
			k.bytes++
			k.check(0)
		}
		cases["too many rows of a partition"] = func() {
			k := page(at("a"), at("b"))
			k.perPartition = 1
			k.check(0)
		}
	}
	for name, breaks := range cases {
		t.Run(name, func(t *testing.T) { invarianttest.Fires(t, breaks, "") })
	}
}
