// Package row is the data model: cells, rows, tombstones, the mutations that change them and the
// commands that read them, and the one function that decides which of two versions wins.
//
// It does not know types, names or text: columns are numbers (schema.ColumnID), and keys, bounds
// and element paths are bytes that sort as the types sort (types.AppendOrdered). So everything here
// compares with bytes.Compare and nothing needs the schema.
//
//	Partition ─ Deletion                              kind of entry     key within the partition
//	  ├─ static Row ─ Cells                           KindHeader        —
//	  ├─ RangeTombstones [start, end)                 KindRangeTombstone start, end
//	  └─ Rows ─ Liveness, Deletion,                   KindRow           clustering
//	            complex Deletions, Cells
//
// Every entry's value is one encoded Row (encode.go), in storage and between nodes alike. A header
// is a Row whose Deletion is the partition's and whose cells are the static ones; a range tombstone
// is a Row with a Deletion only. Thus one merge serves all three.
//
// Clusterings: the ordered forms of the clustering columns one behind the other. A component never
// begins with 0x00 or 0xFF, so for any prefix p the interval [p, p·0xFF) is exactly what begins
// with p; bounds, slices and range tombstones are such half-open byte intervals.
package row
