// Package archive stores the log of a node's storage engine in the store of backups, while it is written. Together with
// a backup, it shows what the node contained at any moment.
//
//	commits ─▶ log ─▶ Read ─▶ segments    ─┐
//	metadata ─ MetadataChanged ─▶ states ──┴▶ Store
//
// An archive is complete until a time: everything that the node accepted or learned until then is in the store. A round
// reads the log first, then stores the states of the metadata that the node has applied, and then the segment: a state
// that is applied later has a later time.
//
// # Order
//
// The promise of a time, Until, is for two sequences, the log and the states. It holds because a round
//
//  1. reads the log, which returns Until: batches that are committed later have later times,
//  2. takes the states that wait, each with a time that was drawn under the lock of their list: a state that is added
//     after this has a time after Until,
//  3. stores these states, and then the segment, whose name has Until.
//
// If a step fails, nothing later is stored, and the next round begins again with what the store has.
//
// # Gaps
//
// The names of two segments show a gap: the second does not begin where the first ends. Nothing has to be written when
// a gap arises, which is when writing fails. A log that was written by a process without backup_log is a gap as well,
// also if it is still on the disk: it has no times, and imports of that process left no marks in it. Such a process
// removes the beginning of the archive (logarchive.Position.Since), so the next positions are greater than all earlier
// ones.
//
// # Cost
//
// A round of an idle node is one small write. A round of a busy one reads its log once more, from the cache of the
// operating system, compresses it, and writes it as one object. Commits never wait for the archive. Until the store has
// a segment, its part of the log stays on the disk of the node; nothing else is stored there.
//
// # What fails
//
// A store that fails for a while delays the archive: rounds are repeated, the engine keeps its log up to a bound of
// disk space, and states wait in memory, up to pendingMax. Beyond the bounds, the archive has a gap, or a state without
// an exact time, and says so: a restoration refuses moments in them instead of guessing.
//
// A node that ends loses nothing of the log, which is on its disk, but the times of states that wait. It stores them at
// its next start with the interval in which they were applied. Other nodes usually know the exact time.
//
// # Position
//
// The store alone says where an archive continues. A position on the node's disk could differ from it: a write that has
// failed may have been executed, the location may have been emptied or changed, and a disk may be restored from a copy.
// After each failure the position is read again.
//
// The position where the archive continues is the end of what the store has. It does not restore (node/backups), and
// knows neither the form of segments (storage/logarchive) nor names in the store (package backup).
package archive
