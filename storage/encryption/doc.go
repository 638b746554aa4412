// Package encryption is a file system that encrypts what it writes.
//
// Each file has a random data key of its own. A header at the beginning of the file contains the data key, wrapped by a
// store key that the operator provides:
//
//	store key ── HKDF ─┬─▶ id            in clear in the header
//	                   └─▶ wrapping key ── AES-256-GCM ──▶ wrapped data key and counter
//	                                                           │
//	data key, counter ── AES-256-CTR ──▶ content of the file ◀─┘
//
// A file contains everything that is needed to read it except for the store key, so renames, hard links, snapshots
// and copies of directories need no registry, and a power failure cannot separate a file from its key. CTR needs no
// padding: each byte of content is one byte on disk, and any part of a file can be read without the rest.
//
// Invariants:
//
//  1. No two contents are encrypted with the same bytes of a key stream. Files are appended to, and a file that is
//     reused for another content is created again with another data key (FS.ReuseForWrite).
//  2. A header occupies one sector, so a power failure leaves the whole header or nothing of it. Nothing that a file
//     promises can be on disk before its header, because both are in one file and one sync.
//  3. A file without a header is one that was written in clear, and is read as it is.
//
// CTR hides the content and does not authenticate it: an attacker who can write to the disk can change bits unnoticed,
// or put a file in clear in the place of an encrypted one. Checksums of Pebble's blocks, logs and manifests lie within
// the encrypted content and find accidents, not attacks. Names, sizes and times of files are in clear.
package encryption
