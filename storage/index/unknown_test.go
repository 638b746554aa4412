package index

import (
	"errors"
	"slices"
	"testing"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
)

// builtWhile builds an index of an empty table, calls arrive, which writes rows and decides meanwhile whether the
// index is known, and makes the index known. It must then be unbuilt, and find the rows once it is built, also after
// a restart.
func builtWhile(t *testing.T, restart bool, rows int, arrive func(m *valuesRun, know func(bool))) {
	m := newValuesRun(t, 1)
	defer func() { m.check("close", m.engine.Close()) }()
	know := func(yes bool) {
		if m.known = nil; yes {
			m.known = testDefinitions()[:1]
		}
	}
	know(true)
	m.check("build", buildAll(m.values, testTable, ofValue))
	if !m.values.Built(testTable, ofValue) {
		t.Fatal("the index of an empty table is not built")
	}
	arrive(m, know)
	if restart {
		m.restart()
	}
	know(true)
	q := &Query{Table: testTable, Index: ofValue, Tokens: ring.FullRange(), Order: ByToken,
		Terms: []row.Slice{row.AllRows()}, Limit: 10, Now: 1}
	if page, err := m.values.Search(q); !errors.Is(err, ErrNotBuilt) {
		t.Fatalf("a search before the build finds %d rows, %v", len(page.Candidates), err)
	}
	if !slices.Contains(m.values.Pending([]schema.StorageID{testTable}), Work{Table: testTable, Index: ofValue}) {
		t.Fatal("no build is pending")
	}
	m.check("build", buildAll(m.values, testTable, ofValue))
	page, err := m.values.Search(q)
	if err != nil || len(page.Candidates) != rows {
		t.Fatalf("a search after the build finds %d rows of %d, %v", len(page.Candidates), rows, err)
	}
}

// TestIndexOfRowsThatCameWhileItWasUnknown writes and ingests rows on a node that does not know an index, or learns of
// it during the ingestion, as when the metadata arrives late: an earlier build does not count.
func TestIndexOfRowsThatCameWhileItWasUnknown(t *testing.T) {
	late := putRow("late", 1, 5, "value")
	for name, arrive := range map[string]func(m *valuesRun, know func(bool)){
		"write": func(m *valuesRun, know func(bool)) {
			know(false)
			m.apply(late)
		},
		"ingestion": func(m *valuesRun, know func(bool)) {
			know(false)
			m.ingest2(late, late, func() {})
		},
		"ingestion that began before": func(m *valuesRun, know func(bool)) {
			know(false)
			m.ingest2(late, late, func() { know(true) })
		},
		"two blocks": func(m *valuesRun, know func(bool)) {
			know(false)
			m.ingest2(late, putRow("later", 1, 5, "value"), func() { know(true) })
		},
	} {
		for _, restart := range []bool{false, true} {
			rows := 1
			if name == "two blocks" {
				rows = 2
			}
			t.Run(name, func(t *testing.T) { builtWhile(t, restart, rows, arrive) })
		}
	}
}

// ingest2 ingests two rows in blocks of their own, and calls between before the second.
func (m *valuesRun) ingest2(first, second *row.Mutation, between func()) {
	g := m.engine.NewIngestion(testTable, ring.FullRange())
	m.check("add", g.Add(m.block(first)))
	between()
	if second != first {
		m.check("add", g.Add(m.block(second)))
	}
	m.check("ingest", g.Commit())
}

// block returns a row as another engine exports it.
func (m *valuesRun) block(x *row.Mutation) []byte {
	source := plain(m.t, storage.Options{Clock: m.clock, Inline: true})
	defer source.Close()
	mustApply(m.t, source, x)
	block, _, err := source.Export(nil, testTable, ring.FullRange(), nil, nil, 1<<20)
	m.check("export", err)
	return block
}
