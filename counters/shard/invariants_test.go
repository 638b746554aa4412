package shard

import (
	"testing"

	"cqld/internal/invariant"
	"cqld/internal/invariant/invarianttest"
	"cqld/internal/wire"
	"cqld/row"
)

// TestInvariantsFire breaks the invariants of sums and of recorded updates, each as a bug in the caller would.
func TestInvariantsFire(t *testing.T) {
	one := row.Cell{Column: 1, Value: wire.AppendInt64(nil, 1)}
	changed := func(clustering string, cells ...row.Cell) *changedRow {
		return &changedRow{clustering: []byte(clustering), changes: row.Row{Cells: cells}}
	}
	header := changed("")
	header.header = true
	process := Process{Node: 1}
	cases := map[string]func(){
		"row changed twice":    func() { (&Change{rows: []*changedRow{changed("a"), changed("a")}}).check() },
		"rows not in order":    func() { (&Change{rows: []*changedRow{changed("b"), changed("a")}}).check() },
		"header after a row":   func() { (&Change{rows: []*changedRow{changed("a"), header}}).check() },
		"column with two sums": func() { (&Change{rows: []*changedRow{changed("a", one, one)}}).check() },
		"two outcomes":         func() { NewWindows(1, nil).ended(&outcome{known: true}, nil) },
		"process without bound": func() {
			w := NewWindows(1, nil)
			w.windows[process] = &window{}
			w.checkLocked(&window{})
		},
	}
	if invariant.Enabled {
		cases["update below the window"] = func() {
			NewWindows(1, nil).checkLocked(&window{floor: 5, seen: map[uint64]*outcome{4: {}}})
		}
		cases["waiting for what is known"] = func() {
			o := &outcome{known: true, waiting: []func(error){nil}}
			NewWindows(1, nil).checkLocked(&window{seen: map[uint64]*outcome{4: o}})
		}
	}
	for name, breaks := range cases {
		t.Run(name, func(t *testing.T) { invarianttest.Fires(t, breaks, "") })
	}
}
