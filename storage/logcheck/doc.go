// Package logcheck finds corruption in Pebble's logs that Pebble takes for the end of a log.
//
// A log ends at the first chunk that cannot be read, because a crash leaves one there: the write that was under way.
// If a chunk that was synced cannot be read, everything after it is lost as well, and Pebble reports that only if a
// later block of 32 KiB shows it. Logs of the metadata are shorter than a block. The functions of this package look for
// evidence that the unreadable chunk is not the end:
//
//	chunk  chunk  X  chunk  chunk ── says that the log was synced beyond X     ──▶ corrupt
//	chunk  chunk  X  chunk        ── X can be read if one of its bits changes  ──▶ corrupt
//	chunk  chunk  X  ?            ── no evidence: the write of X was under way ──▶ the end
//
// In a MANIFEST, each record is synced before the next one is written, so any later record is evidence.
//
// No chunk follows the last one of a log, so its corruption cannot be detected. The package only reads files.
package logcheck
