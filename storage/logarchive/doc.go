// Package logarchive makes Pebble's write-ahead log the archive from which a node's data can be restored as they were
// at any moment.
//
//	commits ─ stamp ─▶ log ─▶ flushed, so that Pebble would delete it ─▶ Keeper keeps the file
//	                    └──────────── Reader ───────────┘
//	                                    └─▶ Segments ─▶ the backup store ─▶ export.OpenAt
//
// A stamp is the hybrid time of the node when a batch was committed, in microseconds since 1970. It is a LogData entry
// of the batch: it is in the log only, not in memtables and files.
//
//  1. A batch has its stamp before it is visible and before a client is answered. The clock is unique and increases, so
//     a batch that was made from what another batch wrote has the greater stamp.
//  2. Hybrid time travels with each frame between nodes. The batches of all replicas with a stamp of at most T
//     therefore contain each write that was acknowledged before T, and none that a coordinator accepted after T.
//  3. Batches are in the log in the order of their sequence numbers, and only roughly in the order of their stamps.
//     Segment.Until is the time up to which a segment and those before it are complete.
//  4. A segment contains only what a crash cannot take from the log again: Pebble would give the sequence numbers of
//     lost batches to new ones.
//  5. A directory in which a process without archiving has written begins a new archive (Position.Since): a reader
//     with an older position gets a Gap.
//
// Kept logs are bounded (Options.KeepBytes), and are deleted first when the disk is full, because writes have
// priority over the archive. A reader that comes too late gets a Gap, and the archive continues with a newer
// checkpoint.
//
// The package knows Pebble's logs and batches, but not rows. Package export opens a checkpoint with the batches of
// segments; the caller stores segments and decides when.
//
// Pebble does not log files that it ingests. The rows that a replica gets from others, when the ring changes and in
// repairs, are therefore added to its log before the file is ingested (Record.Rows): the log then has all that the node
// has got. They are LogData entries, so Pebble does not apply them. Rows from outside the ring are not logged, and are
// marked (Record.Foreign).
package logarchive
