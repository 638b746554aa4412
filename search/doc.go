// Package search finds the rows of a table by an index, at the consistency level of a request.
//
// Each node keeps the entries of the rows that it stores (package storage/index). A Replica answers with the next
// candidates of its node, which are the rows that match by its own versions, and with the position up to which it has
// looked. The Searcher asks enough nodes to meet the level in every replica set concerned. Its result extends to the
// watermark: in each replica set, as many nodes have reached it as the level requires. Up to the watermark, the
// candidates are the union of those of the nodes. A candidate that all of them returned with equal bytes is settled.
// All other candidates are read by their keys, at the level.
//
// Invariants:
//
//  1. A row that was acknowledged before the search began, at a level that overlaps with the level of the search, and
//     whose reconciled version matches, is in the result if the result extends to it.
//  2. Each row of the result is the reconciled version of as many replicas as the level requires, and matches the terms
//     of the request. Its other conditions are evaluated by the caller; replicas evaluate them only to omit rows
//     earlier.
//  3. The rows of a result are unique and in the order of the request, and the next position is after them.
//  4. The watermark only moves forward, also when the search is planned again for a newer topology.
package search
