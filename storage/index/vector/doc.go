// Package vector finds the nearest neighbours of a vector among the vectors of keys, in memory.
//
// An Index is a hierarchical navigable small world graph (Malkov and Yashunin, 2018). Small indexes are searched
// exactly. One writer at a time inserts, replaces and deletes vectors; any number of readers search beside it without a
// lock: nodes and lists of links are immutable once readers can reach them, and are replaced, never changed.
//
// A search is an iterator. It yields keys by descending score and continues for as long as its caller asks, so a caller
// that rejects keys (a filter, stale entries) gets the next best ones. The order is approximate; the set is not: a
// search that is read to its end has yielded each key that was in the index from its beginning to its end, exactly
// once.
package vector
