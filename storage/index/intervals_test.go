package index

import (
	"encoding/binary"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
	"cqld/types"
)

// TestSearchesOpenOneIterator checks that a search for many values, some with entries, opens one iterator for
// each index, in every order and direction, and finds the entries of all of them.
func TestSearchesOpenOneIterator(t *testing.T) {
	const values, every = 600, 3 // the others have no entry
	column := &schema.Column{ID: 3, Kind: schema.Regular, Type: types.Native(types.Text)}
	one := Definition{ID: ofValue, Terms: ColumnTerms(column, Cell), Whole: true}
	other := one
	other.ID++
	x := NewValues(func(schema.StorageID) []Definition { return []Definition{one, other} })
	o := storage.Options{FS: vfs.NewMem(), Dir: "data", Sync: storage.SyncNone, Clock: newTestClock()}
	MaintainValues(&o, x)
	opened, err := storage.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{Engine: opened}
	defer e.Close()
	for _, id := range []schema.StorageID{one.ID, other.ID} {
		for more := true; more; {
			if more, err = x.Build(testTable, id); err != nil {
				t.Fatal(err)
			}
		}
	}
	var terms []row.Slice
	m, r := new(row.Mutation), row.NewRow()
	for i := range values {
		value := binary.BigEndian.AppendUint64(nil, uint64(i))
		terms = append(terms, row.ExactRow(types.Native(types.Text).AppendOrdered(nil, value, false)))
		if i%every == 0 {
			valuesMutation(m, r, i, value, []byte("rest"))
			mustApply(t, e, m)
		}
	}
	for name, q := range map[string]*Query{
		"by token":         {Order: ByToken},
		"by term":          {Order: ByTerm},
		"by term reversed": {Order: ByTerm, Reversed: true},
		"of a partition":   {Order: ByToken, Key: benchKey(0), Reversed: true},
		"union":            {Order: ByToken, Union: []Branch{{other.ID, terms}}},
	} {
		q.Table, q.Index, q.Terms, q.Tokens, q.Limit, q.Now = testTable, one.ID, terms, ring.FullRange(), values, 5
		s := search{x: x, q: q, def: &one, scratch: new(scratch)}
		if s.union, err = x.union(q, &one); err != nil {
			t.Fatal(err)
		}
		s.bounds = s.placeBounds()
		found := 0
		if err := s.withEntries(func(next func() ([]byte, bool, error)) error {
			for {
				if _, ok, err := next(); !ok || err != nil {
					return err
				}
				found++
			}
		}); err != nil {
			t.Fatal(name, err)
		}
		want := values / every * (1 + len(q.Union))
		if q.Key.Bytes != nil {
			want = 1
		}
		if found != want || len(s.opened) != 1+len(q.Union) {
			t.Errorf("%s: %d entries by %d iterators, want %d by %d", name, found, len(s.opened), want, 1+len(q.Union))
		}
		if q.Order != ByToken || q.Key.Bytes != nil {
			continue
		}
		if n, err := x.Count(q, 2*values); err != nil || n != values/every {
			t.Errorf("%s: %d entries are counted, %v", name, n, err)
		}
	}
}
