// Package seal encrypts the files of a store of backups with one key, the key of the store.
//
// A sealed file is a header and chunks:
//
//	0   8  magic; its last byte is the version of the format
//	8  32  salt
//	40     chunks: AES-256-GCM of 64 KiB of the content, and its tag of 16 bytes; the last chunk may be shorter
//
// Each file has a key of its own, which HKDF derives from the key of the store, the salt and the name of the file. The
// nonce of a chunk is its number and whether it is the last one, which is the STREAM construction of Hoang,
// Reyhanitabar, Rogaway and Vizár. From this follow:
//
//  1. A chunk that was changed, or taken from another place, file or store, does not authenticate.
//  2. A file that was cut or extended does not authenticate: readers derive the number of chunks from its size.
//  3. A part is read with the chunks that it is in.
//  4. A file key encrypts one content: the salt is derived from the name and the content, or the name itself is
//     (Key.Name). The same file is sealed to the same bytes, so that it can be sent again.
//
// A restoration reads parts of the table files of a backup, in any order, and asks for 1 MiB at a time. It reads at
// most two chunks that it needs in part only, one at each end, and the header of no object: the salt of an object is
// zero.
//
// An earlier content of the same name authenticates as well: the package does not detect that a file was put back.
package seal
