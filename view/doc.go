// Package view reads materialized views.
//
// A view is not a second copy of its base table. Its rows are computed from the rows of the base table when they are
// read:
//
//	SELECT on the view ─▶ Reader ─▶ rows of the base table, at the level of the request ─▶ Mapper ─▶ page of the view
//
// A row of a view therefore equals the row of the base table that a read at the same level returns. A write to the base
// table is a write to its views, and nothing can drift apart.
//
// The rows of a view partition are found by an index of the base table (package search). The term of an entry is the
// place of the row in the view: token, partition key and clustering. It depends on the key of the base row and on at
// most one of its cells, so the storage writes entries without reading rows.
package view
