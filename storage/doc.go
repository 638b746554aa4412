// Package storage keeps one node's rows on disk, in one Pebble.
//
// It knows tables as numbers, partitions as bytes with a token, and rows as package row encodes
// them. It knows no CQL, no other node and no consistency; who may read or write what was decided
// above. It is also where node-local state is kept (local.go).
//
// A row is one Pebble key; a write is a blind Merge of the encoded change, and the merger is
// row.Reconcile. So a write reads nothing, the order of writes does not matter, and applying one
// twice changes nothing.
//
//	table id 4 │ token 8, sign flipped │ key length 2 │ partition key │ kind │
//	───────────┴───────────────────────┴──────────────┴───────────────┴──────┴──────────────────
//	                                                                    0      header: partition deletion, static row
//	                                                                    1      range tombstone: escaped start, 00 01, end
//	                                                                    2      row: clustering
//	00000000   │ 00 engine's own │ 01 local key │ 02… entries of a maintainer: table id 4, key
//
// Keys of a table sort as the ring does, those of a partition as its clusterings; the comparer is
// Pebble's default.
//
//	Apply ─ group ─ committer ─ stripe read latches ─ Pebble batch ─ one fsync ─ done, done, done
//	Read  ─ iterator ─ header ─ range tombstones ─ rows ─ shadow, purge, count ─ page
//
//	Sweep ─ finds what is dead ─ stripe write latch ─ reads it again ─ Set or Delete
//
// Pebble never purges what the Merger merged, so the sweeper does. It reads, decides and overwrites;
// a write between would be lost, hence the latches: a commit holds the read side of the stripes of
// its partitions, who overwrites holds the write side.
//
// Indexes are kept by maintainers (maintainer.go): the engine calls them wherever rows enter or leave, and their
// entries are written in the same batch as the rows. Package storage/index has the maintainers; storage knows none of
// them.
package storage
