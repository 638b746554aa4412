// Package model is a table in a map: what storage must answer, computed in the plainest way.
//
// It keeps every version that was ever written and decides at each read, from all of them, what is
// to be seen. It is slow, holds no promise about memory, and shares with the code it checks only the
// decision between two cells (row.ReconcileCells) and the encoding of pages.
package model
