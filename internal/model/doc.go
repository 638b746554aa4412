// Package model implements a table as a map: it computes the answers expected from storage in the simplest way.
//
// It keeps every version that was ever written and computes each read from all of them. It is slow, has no bound on
// memory, and shares with the code under test only the reconciliation of two cells (row.ReconcileCells) and the
// encoding of pages.
package model
