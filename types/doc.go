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
// Orders, messages and text forms equal Apache Cassandra 5.0's; testdata contains its answers.
package types
