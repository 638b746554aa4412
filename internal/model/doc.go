// Package model implements a table as a map: it computes the answers expected from storage in the simplest way.
//
// It keeps every version that was ever written and computes each read from all of them. It is slow, has no bound on
// memory, and shares with the code under test only the reconciliation of two cells (row.ReconcileCells) and the
// encoding of pages.
//
// The model deviates from storage on purpose: it does not know the size limit of pages (PageRows takes its place), and
// it purges only in Purge and in the page of a read, never in the background.
//
// A test applies the same mutations to both sides and compares the pages byte by byte:
//
//	mutations ──┬──▶ storage ──▶ page ──┐
//	            │                       ├── equal bytes
//	            └──▶ Table   ──▶ page ──┘
//
// Equal bytes are possible because a page has one canonical form: range tombstones are disjoint and joined where they
// touch, cells are sorted by column and path, and nothing shadowed is shown.
package model
