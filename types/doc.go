// Package types is CQL's data types: how they are named and parsed, how their values look on the
// wire, in text and in JSON, how they compare, and the byte form of a value that sorts as the type
// sorts.
//
// It does not know columns, tables or user-defined types by name (schema does), nor functions on
// values (query/function does). Values are wire-form byte slices throughout; nil is null, and a
// non-nil empty slice is the empty value that some types allow.
//
//	CQL constant ──FromLiteral──▶              ──AppendOrdered──▶
//	             ◀──AppendLiteral── wire form                    key bytes, in memcmp order the type's
//	JSON         ──FromJSON─────▶   (nil null)  ◀─ConsumeOrdered──
//	             ◀──AppendJSON─────  │     ▲
//	                           Parts │     │ AppendParts
//	                                 ▼     │
//	                      elements, entries, fields
//
// Validate is asked once, where bytes come in from a client; what is stored has passed it. The rest
// never panics on bytes that have not, but what it answers for them means nothing.
//
// Orders, messages and text forms are those of Apache Cassandra 5.0: testdata holds what it answered.
package types
