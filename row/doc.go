// Package row is the data model: cells, rows, tombstones, the mutations that change them, the commands that read
// them, and the one function that decides which of two versions wins.
//
// It does not know types, names or text: columns are numbers (schema.ColumnID), and keys, bounds and element paths
// are bytes that sort as the types sort (types.AppendOrdered). All comparisons therefore use bytes.Compare, and none
// needs the schema. Only a Filter compares values of cells, and contains their types.
//
//	Partition ─ Deletion                              kind of entry     key within the partition
//	  ├─ static Row ─ Cells                           KindHeader        —
//	  ├─ RangeTombstones [start, end)                 KindRangeTombstone start, end
//	  └─ Rows ─ Liveness, Deletion,                   KindRow           clustering
//	            complex Deletions, Cells
//
// The value of every entry is one encoded Row (encode.go), in storage and between nodes. A header is a Row whose
// Deletion is the partition's and whose cells are the static ones. A range tombstone is a Row with a Deletion only.
// One merge function therefore serves all three.
//
// A clustering is the concatenation of the ordered forms of the clustering columns. A component never begins with
// 0x00 or 0xFF, so for any prefix p the interval [p, p·0xFF) contains exactly the clusterings that begin with p.
// Bounds, slices and range tombstones are such half-open byte intervals.
package row
