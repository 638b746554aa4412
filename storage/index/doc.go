// Package index keeps entries that are derived from rows, and searches them. It implements storage.Maintainer twice:
//
//	Partitions   the partition keys of some tables in the order of their bytes; rows are in the order of their tokens
//	Values       the entries of the indexes of columns: by value, by term of a text, by vector
//
// An entry of Values is a value of a column, or a term of it, and the key of the row that had it. Entries are written
// in the batch of their rows, and without a read: an UPDATE leaves the entry of the old value. A search therefore reads
// the row of each entry that it finds, and leaves out entries whose row has another value. The sweep (sweep.go) removes
// such stale entries later.
//
//	Enter   ─ entries of the columns that a commit sets ─ batch of the commit
//	Build   ─ rows in the order of their keys ─ entries; the mark "built" when a pass has seen all rows
//	Search  ─ entries by value, token or rank ─ rows read and compared ─ page
//	Sweep   ─ entries whose rows have another value ─ write latch ─ compared again ─ removed
//
// The invariant that the package keeps: each live row of a table whose index is marked as built has the entry of its
// value. A missing entry would be a missing row, a stale entry costs a read. Events that could break it (an ingestion
// whose entries were not staged, a corrupt file with entries) remove the mark, and the index is built again.
//
// Indexes of vectors have entries as well; the graph of nearest neighbors (package vector) is memory only, built from
// the entries, and bounded by limits.go.
//
// The package writes through storage.Host and storage.Derived, and knows neither Pebble nor the layout of keys.
package index
