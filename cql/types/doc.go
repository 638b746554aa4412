// Package types is CQL's data types: how they are named and parsed, how their values look on the
// wire, in text and in JSON, how they compare, and the byte form of a value that sorts as the type
// sorts.
//
// It does not know columns, tables or user-defined types by name (schema does), nor functions on
// values (query/function does). Values are wire-form byte slices throughout; nil is null, and a
// non-nil empty slice is the empty value that some types allow.
//
//	literal text ──Parse──▶ wire form ──AppendOrdered──▶ key bytes (memcmp order = type order)
//	     ▲                   │     ▲                         │
//	     └────── Format ─────┘     └───── ConsumeOrdered ────┘
package types
