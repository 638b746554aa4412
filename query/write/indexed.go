package write

import (
	"math"

	"cqld/query/invalid"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// indexedBytesMax is the smallest size, in bytes, of a value that legacy indexes reject: in Cassandra the value is
// the partition key of a hidden table, and the length of a key has 16 bits. Storage-attached indexes have guardrails
// instead, and SASI has no bound.
const indexedBytesMax = math.MaxUint16

// checkIndexed returns an error if a legacy index cannot index a value in a row that is written: kind is schema.Static
// for a static row. Like Cassandra, it also checks the keys of elements that are deleted. The message is Cassandra's.
func checkIndexed(t *schema.Table, kind schema.ColumnKind, r *row.Row) error {
	// Nearly all rows return here, before the loop over indexes.
	if !largeRow(r) {
		return nil
	}
	// One of the indexes may be on another column than the large one.
	for _, x := range t.Indexes() {
		c := t.ColumnByID(x.Column)
		// Clustering columns belong to the rows, not to the static row.
		if x.Class != schema.LegacyIndex || c == nil || (c.Kind == schema.Static) != (kind == schema.Static) {
			continue
		}
		if n := largestIndexed(t, x, c, r); n >= indexedBytesMax {
			return invalid.Errorf("Cannot index value of size %d for index %s on %s.%s(%s) (maximum allowed size=%d)",
				n, x.Name, t.Keyspace, t.Name, c.Name, indexedBytesMax)
		}
	}
	return nil
}

// largeRow reports whether a value of the row may be too large. Other rows skip the check of indexes.
func largeRow(r *row.Row) bool {
	if len(r.Clustering) >= indexedBytesMax {
		return true
	}
	for i := range r.Cells {
		if len(r.Cells[i].Path)+len(r.Cells[i].Value)+schema.IndexEntryBytes >= indexedBytesMax {
			return true
		}
	}
	return false
}

// largestIndexed returns the size in bytes of the first value for index x that is too large, or 0. The components of a
// partition key are smaller than the bound, because the key is.
func largestIndexed(t *schema.Table, x *schema.Index, c *schema.Column, r *row.Row) int64 {
	switch c.Kind {
	case schema.PartitionKey:
		return 0
	case schema.Clustering:
		// A row has one value of the column; the caller compares it.
		return clusteringBytes(t, c, r.Clustering)
	}
	for i := range r.Cells {
		if cell := &r.Cells[i]; cell.Column == c.ID {
			if n := indexedBytes(x, c, cell); n >= indexedBytesMax {
				return n
			}
		}
	}
	return 0
}

// indexedBytes returns the size in bytes of what x indexes of a cell: an element, a key, an entry or a value. c is the
// indexed column, and not in the primary key.
func indexedBytes(x *schema.Index, c *schema.Column, cell *row.Cell) int64 {
	kind := c.Type.Kind()
	// Sets store elements in the path, and maps their keys. Lists store elements in the value.
	ofPath := kind == types.Set || kind == types.Map && x.Target != schema.IndexValues
	switch {
	case !c.Type.MultiCell() || !ofPath:
		return int64(len(cell.Value))
	case x.Target == schema.IndexEntries:
		return pathBytes(c, cell.Path) + int64(len(cell.Value)) + schema.IndexEntryBytes
	}
	return pathBytes(c, cell.Path)
}

// clusteringBytes returns the size in bytes of the value of a clustering column in an encoded clustering. Components
// have no lengths, so it also decodes all earlier components.
func clusteringBytes(t *schema.Table, column *schema.Column, clustering []byte) int64 {
	for _, c := range t.Clustering {
		v, rest, err := c.Type.ConsumeOrdered(nil, clustering, c.Desc)
		if err != nil {
			return 0 // values that are missing at the end are empty
		}
		if c == column {
			return int64(len(v))
		}
		clustering = rest
	}
	return 0
}
