// Package mask implements dynamic data masking: the meaning of MASKED WITH, the values that clients without the
// permission UNMASK see, and the masked columns that they must not restrict without SELECT_MASKED.
//
// It does not read or write rows. query/read and query/write apply masks to the columns of a row before functions,
// aggregates and JSON receive them, so a result computed from a masked column never contains the real value. Rows are
// selected, grouped and ordered by their real values.
//
//	MASKED WITH ─▶ Definer ─▶ schema.Mask ─▶ Compile ─▶ Table ─┐
//	columns of WHERE and IF ───────────────────────────────────┴▶ Decision ─▶ the masks for one principal
package mask
