// Package types implements CQL's data types: their names, the representation of their values on the wire, in text and
// in JSON, their comparison, and an encoding of values that sorts bytewise like the type.
//
// It does not know columns, tables or the names of user-defined types (package schema does), nor functions on values
// (package query/function does). Values are byte slices in wire form throughout: nil is null, and a non-nil empty slice
// is the empty value that some types allow.
//
//	CQL constant ──FromLiteral──▶              ──AppendOrdered──▶
//	             ◀──AppendLiteral── wire form                    key bytes, in memcmp order the type's
//	JSON         ──FromJSON─────▶   (nil null)  ◀─ConsumeOrdered──
//	             ◀──AppendJSON─────  │     ▲
//	                           Parts │     │ AppendParts
//	                                 ▼     │
//	                      elements, entries, fields
//
// Validate is called once, for bytes from a client; stored values have passed it. The other functions never panic on
// invalid bytes, but their results are then meaningless.
//
// Functions named Append… append to dst and return it, like append. They do not keep their arguments. Results of other
// functions may point into their arguments where their comment says so. A *Type is immutable and safe for concurrent
// use.
//
// # Wire forms
//
// All numbers are big-endian. [bytes] is a signed length of 4 bytes and that many bytes; -1 means null.
//
//	ascii, blob, text        the bytes
//	boolean                  1 byte; 0 is false
//	tinyint, smallint, int   1, 2 or 4 bytes, signed
//	bigint, counter          8 bytes, signed
//	float, double            4 or 8 bytes, IEEE 754
//	varint                   two's complement, at least 1 byte
//	decimal                  scale in 4 bytes, signed; then the digits as a varint
//	date                     4 bytes, unsigned: days, 1970-01-01 is 2^31
//	time                     8 bytes: nanoseconds since midnight
//	timestamp                8 bytes, signed: milliseconds since 1970
//	duration                 three vints: months, days, nanoseconds
//	inet                     4 or 16 bytes
//	uuid, timeuuid           16 bytes
//	list, set                count in 4 bytes; [bytes] for each element
//	map                      count in 4 bytes; [bytes] for each key and for each value
//	tuple, UDT               [bytes] for each field; fields at the end may be missing
//	vector                   the elements, each after its length as a vint unless FixedLength is not 0
//
// Orders, messages and text forms equal Apache Cassandra 5.0's; testdata contains its answers.
package types
