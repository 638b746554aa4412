// Package storage keeps one node's rows on disk, in one Pebble.
//
// It knows tables as numbers, partitions as bytes with a token, and rows as package row encodes them. It knows no
// CQL, no other node and no consistency level; the packages above decide which requests are permitted. It also stores
// node-local state (local.go).
//
// A row is one Pebble key; a write is a blind Merge of the encoded change, and the merger is
// row.Reconcile. So a write reads nothing, the order of writes does not matter, and applying one
// twice changes nothing.
//
//	table id 4 │ token 8, sign flipped │ key length 2 │ partition key │ kind │
//	───────────┴───────────────────────┴──────────────┴───────────────┴──────┴──────────────────
//	                                                               0  header: partition deletion, static row
//	                                                               1  range tombstone: escaped start, 00 01, end
//	                                                               2  row: clustering
//	00000000   │ 00 engine's own │ 01 local key │ 02… entries of a maintainer: table id 4, key
//
// Keys of a table sort as the ring does, those of a partition as its clusterings; the comparer is
// Pebble's default.
//
// Engine is a façade over parts that share only what struct core contains:
//
//	committer     groups of mutations, their commit and their fsync          commit.go, group.go
//	reading       pages, hashes, newest timestamps                          package reading
//	purge         expired and shadowed data                                 package purge
//	remover       TRUNCATE, DROP, ranges of tokens, and their space         remove.go, ranges.go, reclaim.go
//	quarantine    corrupt files, and the ranges that were lost in them      rangelost.go
//	maintenance   entries that are derived from rows                        maintainer.go, host.go, ingest.go
//	database      Pebble, its options and its failure                       package database
//
//	Apply ─ group ─ committer ─ stripe read latches ─ Pebble batch ─ one fsync ─ done, done, done
//	Read  ─ iterator ─ header ─ range tombstones ─ rows ─ shadow, purge, count ─ page
//	Sweep ─ finds what is dead ─ stripe write latch ─ reads it again ─ Set or Delete
//
// Locks are taken in this order, and none is held while a callback of a write runs:
//
//	purger ─ latches ─ a maintainer's own locks
//	the queue of the committer: only for a few instructions
//
// Pebble never purges tombstones that the Merger has merged, so package purge does. It reads, decides and overwrites;
// a write between read and overwrite would be lost, hence the latches: a commit holds the read side of the stripes of
// its partitions, an overwrite the write side.
//
// Indexes are kept by maintainers (maintainer.go): the engine calls them wherever rows enter or leave, and their
// entries are written in the same batch as the rows. Package storage/index has the maintainers; storage knows none of
// them.
//
// A broken invariant (package invariant) panics: to continue might lose or invent data. Errors of package failure
// report conditions that a caller, a disk or another node can cause.
package storage
