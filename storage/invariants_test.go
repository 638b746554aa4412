package storage

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/invariant"
	"cqld/internal/invariant/invarianttest"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/backlog"
	"cqld/storage/block"
	"cqld/storage/bounds"
	"cqld/storage/failure"
	"cqld/storage/headers"
	"cqld/storage/latch"
	"cqld/storage/merging"
	"cqld/storage/rowkey"
)

// TestInvariantsFire breaks invariants, each as a bug in a caller would, and expects the assertion that names it.
func TestInvariantsFire(t *testing.T) {
	e := openTest(t, Options{FS: vfs.NewMem(), Inline: true})
	defer e.Close()
	mustApply(t, e, putRow("k", 1, 1, "x"))
	nothing := func([]byte) {}
	merger := merging.New(nothing, failure.BadRow)
	merge := func() pebble.ValueMerger {
		m, err := merger.Merge([]byte("k"), row.AppendRow(nil, row.NewRow()))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	full := backlog.NewCrowded(4)
	full.Add([]byte("k"))
	for name, breaks := range map[string]func(){
		"long partition key": func() {
			rowkey.AppendPartition(nil, 1, row.PartitionKey{Bytes: make([]byte, rowkey.PartitionBytesMax+1)})
		},
		"kind after the end": func() { rowkey.AppendSuffix(nil, rowkey.KindEnd, nil, nil) },
		"range that wraps":   func() { rowkey.Bounds(nil, nil, 1, ring.Range{Start: 5, End: 3}) },
		"empty latch":        func() { new(latch.Latches).Lock(0) },
		"empty span":         func() { backlog.NewDead(4).Add(backlog.Span{Start: []byte("b"), End: []byte("a")}) },
		"forget before take": func() { full.Forget("k") },
		"flag not raised":    func() { new(headers.Flags).Persisted([]schema.StorageID{7}) },
		"block out of order": func() {
			var w block.Writer
			w.Add([]byte("b"), nil)
			w.Add([]byte("a"), nil)
		},
		"deletion elsewhere": func() { _, _ = bounds.Covering(nil, []byte("a"), []byte("b"), []byte("c")) },
		"merge closed twice": func() {
			m := merge()
			_, closer, _ := m.Finish(true)
			_ = closer.Close()
			_ = closer.Close()
		},
		"merge after close": func() {
			m := merge()
			_, closer, _ := m.Finish(true)
			_ = closer.Close()
			_, _, _ = m.Finish(true)
		},
		"page to a later end": func() { w := row.NewPageWriter(nil); w.Undo(1) },
		"row into itself":     func() { r := row.NewRow(); row.Reconcile(r, r, row.NewRow()) },
		"reversed bounds":     func() { _, _ = e.db.Empty([]byte("b"), []byte("a")) },
		"ingestion after end": func() {
			g := e.NewIngestion(testTable, ring.FullRange())
			g.Abort()
			_ = g.Add(nil)
		},
		"two commits":             func() { (&queue{committing: true, groups: []*group{{}}}).popLocked() },
		"commit that never began": func() { (&committer{core: e.core}).finish(&group{}) },
		"bytes given back twice": func() {
			c := &committer{core: e.core, queue: queue{committing: true}}
			c.finish(&group{bytes: 1})
		},
		"bytes not given back": func() {
			c := &committer{core: e.core, queue: queue{committing: true, bytes: 1}}
			c.finish(&group{})
		},
		"spare group with a callback": func() {
			c := &committer{core: e.core, queue: queue{spare: []*group{{early: []func(error){nil}}}}}
			c.newGroup()
		},
		"entries closed twice": func() {
			iter, err := e.db.NewIter(nil)
			if err != nil {
				t.Fatal(err)
			}
			x := &Entries{iter: iter}
			_ = x.Close()
			_ = x.Close()
		},
		"keys without values": func() { _ = e.removals.dropKeys(testTable, [][]byte{{1}}, nil) },
		"file removed twice": func() {
			twice := &maintainer{Maintainer: losesTwice{}}
			_ = loseEntries([]*maintainer{twice}, nil, nil, func() error { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) { invarianttest.Fires(t, breaks, "") })
	}
}

// TestExpensiveInvariantsFire is TestInvariantsFire for assertions that only the build tag "invariants" enables.
func TestExpensiveInvariantsFire(t *testing.T) {
	if !invariant.Enabled {
		t.Skip("this build does not check expensive invariants")
	}
	cells := row.NewRow()
	cells.Cells = []row.Cell{{Column: 2, Timestamp: 1}, {Column: 1, Timestamp: 1}}
	invarianttest.Fires(t, func() { row.Reconcile(row.NewRow(), cells, row.NewRow()) }, "")
}

// losesTwice is a maintainer that removes a corrupt file twice.
type losesTwice struct{ Maintainer }

func (losesTwice) LoseEntries(_, _ []byte, remove func() error) error {
	return errors.Join(remove(), remove())
}
