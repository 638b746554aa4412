package view

import (
	"sync"

	"cqld/row"
	"cqld/schema"
	"cqld/storage/index"
)

// Definitions returns the definitions of the indexes by which the views of a table are read. The definition of a view
// has the StorageID of the view, under which its entries are stored and searched.
func Definitions(base *schema.Table) []index.Definition {
	var out []index.Definition
	for _, v := range base.Views() {
		// The storage finds terms in several goroutines, and a Mapper belongs to one at a time.
		t := &terms{}
		t.mappers.New = func() any { return NewMapper(base, v) }
		out = append(out, index.Definition{ID: v.StorageID, Terms: t, Whole: true})
	}
	return out
}

// terms finds the term of a row: its place in the view.
type terms struct{ mappers sync.Pool } // of *Mapper

// Append implements index.Terms.
func (t *terms) Append(found *index.Found, x *index.Source, now int64) {
	// Static rows and deletions have no row in a view.
	if x.Kind != row.KindRow {
		return
	}
	m := t.mappers.Get().(*Mapper)
	defer t.mappers.Put(m)
	if m.at(x.Key, x.Row, now) {
		// A key that is too long has no term, as it has no row.
		if key, ok := m.partitionKey(); ok {
			found.Add(func(dst []byte) []byte { return m.appendClustering(AppendTerm(dst, key, nil)) }, nil)
		}
	}
}
