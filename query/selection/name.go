package selection

import (
	"cqld/cql"
	"cqld/query/term"
)

// name is the name of a result column, in parts: the names of operands are parts of the name of an expression, and
// are joined only for the outermost one. Joining names at each level would take quadratic time. A name appends to dst
// and returns it. Only outermost selectors and errors call it.
type name func(dst []byte) []byte

// String returns the name, truncated to the length of a [string] of the protocol.
func (n name) String() string { return term.Cut(n(nil)) }

// named returns a name of one part.
func named(text string) name { return func(dst []byte) []byte { return append(dst, text...) } }

// asWritten returns the text of a selector as its name. The text is generated from the syntax tree, so spaces and the
// case of identifiers are normalized.
func asWritten(x cql.Selector) name {
	return func(dst []byte) []byte { return term.AppendSelector(dst, x) }
}

// joined returns the concatenation of names.
func joined(parts ...name) name {
	return func(dst []byte) []byte {
		for _, p := range parts {
			dst = p(dst)
		}
		return dst
	}
}

// callName returns the name of a call of a function. function is qualified, such as system.max.
func callName(function string, args []name) name {
	return func(dst []byte) []byte {
		dst = append(append(dst, function...), '(')
		// Arguments append to dst themselves, so no intermediate text is made.
		for i, arg := range args {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = arg(dst)
		}
		return append(dst, ')')
	}
}
