// Package watermark determines how far a coordinator knows an ordered sequence of entries that several nodes return in
// pages: the keys of a table, or the rows that an index finds. The watermark is the position up to which, in each
// replica set, as many nodes as the consistency level requires have returned all entries that they have.
//
//	node 1  ──●──●─────●──────▶ has returned its entries up to here
//	node 2  ──●────●──●─▶
//	node 3  ─▶
//	          └─────────┴ the watermark of QUORUM: entries up to here are known; the next pages are asked of nodes 2 and 3
//
// It sends nothing, has no events and no lock: package listing and package search do. They define what an entry is, and
// what several versions of one mean.
package watermark
