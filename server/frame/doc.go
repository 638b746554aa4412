// Package frame encodes and decodes the messages of the CQL native protocol v3, v4 and v5. It appends to the caller's
// buffer, and decodes from a cursor with a sticky error. It does no I/O, has no state of a connection, uses no
// reflection and never panics on invalid input.
//
// It does not know what a statement means, which versions a server accepts, or when a connection switches to
// segments: package server does.
//
//	v3, v4   ┌ header 9 B ┬ body (whole body compressed when flag 0x01) ┐ ┌ header …
//
//	v5       ┌ segment header 3+3 B (8 B with LZ4) ┬ payload ≤ 128 KiB-1 ┬ CRC32 4 B ┐
//	                                               │
//	         self-contained:  ┌ header 9 B ┬ body ┐┌ header 9 B ┬ body ┐ …
//	         otherwise:       a slice of one large envelope
//
// An envelope is what v3 and v4 call a frame: the header and the body of one message. Its header, in all versions:
//
//	version 1 B (bit 7 = response) | flags 1 B | stream 2 B | opcode 1 B | body length 4 B
//
// A body may begin with the parts that the flags announce, in this order:
//
//	[tracing uuid][warnings string list][custom payload bytes map] message
//
// Names of functions are the same for all messages: Append… encodes to the end of a slice, Consume… decodes from a
// cursor, and Decode… decodes a fixed number of bytes. Consume functions return zero values after the first error,
// which the cursor keeps, so a caller checks it once at the end.
//
// The specifications are native_protocol_v3.spec, v4 and v5 in the documentation of Apache Cassandra; § in comments is
// a section there. Words in brackets, such as [string map], are the notations of their section 3.
package frame
