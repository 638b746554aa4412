package index

import (
	"cqld/row"
	"cqld/schema"
)

// Definition describes one index of values of a table. It is immutable.
type Definition struct {
	// ID identifies the index. It is unique among tables and indexes, and never used again.
	ID schema.StorageID
	// Terms finds the terms of a row. It must depend on nothing but its arguments, and must be safe for concurrent use.
	Terms Terms
	// Partitions means that an entry stands for a partition, not for a row: Terms looks at partition keys or static
	// columns.
	Partitions bool
	// Values means that an entry has a value, the one passed to Found.Add. Other entries have none.
	Values bool
	// Whole keeps terms of any length uncut, for indexes that are read in the order of terms. Others are cut at
	// termMax bytes; readers compare the whole term with the row.
	Whole bool
	// Vectors is not nil if the values of entries are vectors.
	Vectors *Vectors
}

// Terms finds the terms of one row, or of the header of a partition.
type Terms interface {
	// Append adds the terms of x that are live at the time now (seconds) to found. x may be a single change of a row:
	// each term of a reconciled row must be a term of one of the changes, or of the key. At math.MinInt64 everything
	// that is not a tombstone is live. The added terms may repeat, in any order.
	Append(found *Found, x *Source, now int64)
}

// Source is a row, or the header of a partition, from which terms are taken. Its slices are valid during a call of
// Terms.Append.
type Source struct {
	Key row.PartitionKey
	// Kind is row.KindRow or row.KindHeader. Whether the cells are regular or static follows from it.
	Kind row.EntryKind
	// Row has the cells, and the clustering of a row.
	Row *row.Row
}

// Found collects terms. Its memory is reused. A Found must not be used by two goroutines at a time. The zero value is
// empty.
type Found struct {
	// The terms and values, one after the other; spans contains their offsets, which stay valid when bytes is moved.
	bytes []byte
	spans []span
}

// span is a term, and a value after it, in Found.bytes.
type span struct{ from, term, value int }

// Reset empties f. Terms and values that were returned before are then overwritten.
func (f *Found) Reset() { f.bytes, f.spans = f.bytes[:0], f.spans[:0] }

// Add adds a term: the bytes that build appends to its argument. value is nil unless the definition has Values. Both
// are copied, so the caller keeps value. build must append, and must not keep its argument.
func (f *Found) Add(build func([]byte) []byte, value []byte) {
	from := len(f.bytes)
	f.bytes = build(f.bytes)
	term := len(f.bytes)
	f.bytes = append(f.bytes, value...)
	f.spans = append(f.spans, span{from, term, len(f.bytes)})
}

// Len returns the number of terms.
func (f *Found) Len() int { return len(f.spans) }

// Term returns term number i, valid until the next change of f.
func (f *Found) Term(i int) []byte { s := f.spans[i]; return f.bytes[s.from:s.term:s.term] }

// Value returns the value of term number i, valid until the next change of f.
func (f *Found) Value(i int) []byte { s := f.spans[i]; return f.bytes[s.term:s.value:s.value] }

// InAny reports whether a term is in one of the intervals, which are ascending and disjoint. It compares uncut terms,
// so it filters entries whose cut terms matched by accident.
func (f *Found) InAny(intervals []row.Slice) bool {
	for i := range f.spans {
		if row.InSlices(intervals, f.Term(i)) {
			return true
		}
	}
	return false
}

// Order is the order of the results of a search. The numbers are part of requests between nodes, and must not change.
type Order uint8

// The orders.
const (
	ByToken Order = iota + 1 // tokens, then partition keys, then the rows of a partition
	ByTerm                   // terms, then as ByToken
	ByScore                  // the best score first, then as ByToken; of vectors
)

// OfKey reports whether the terms come from a column of the partition key.
func (d *Definition) OfKey() bool { _, ok := d.Terms.(*keyTerms); return ok }

// HasTermOf reports whether one of the terms of found belongs to a position in ByTerm.
func (d *Definition) HasTermOf(found *Found, at Position) bool {
	n, ok := splitTerm(at)
	return ok && d.has(found, consumeTerm(nil, at[:n]))
}
