// Package listing lists the partition keys of a table in the order of their bytes. The ring orders partitions by token,
// so neighbors in key order are on different nodes.
//
// Each node stores its own keys in key order (the partition index of package storage/index). A Replica answers with the
// next live keys of its node and with the position that they reach. The Lister asks enough nodes to meet the
// consistency level in every replica set of the ring. The result extends to the watermark: in each replica set, as many
// nodes have reached it as the level requires. Up to the watermark, the result contains every key that any node
// returned.
//
//	node 1   a c │        position c     {1 2 3} two of three: c
//	node 2   a b e │      position e     {2 3 4} two of three: e
//	node 3   no answer                   watermark c: the result is a b c
//	node 4   b d f │      position f
//
// Invariants:
//
//  1. A partition with a live row that was acknowledged before the listing began, at a level that overlaps with the
//     level of the listing, is in the result if the result extends to its key.
//  2. The keys of a result are unique and in the order of the request.
//  3. The watermark only moves forward, also when the listing is planned again for a newer topology.
//
// The package neither reads nor reconciles rows, so a listed partition may turn out to be deleted when it is read. It
// does not maintain the index either: package storage/index does. A table without an index is scanned over the ring by
// reads of package coordinator, which gives the same keys at the cost of one row of every partition.
package listing
