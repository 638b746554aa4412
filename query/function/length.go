package function

import (
	"unicode/utf8"

	"cqld/internal/wire"
	"cqld/types"
)

// addLength adds length(text) and octet_length(any native type), as Cassandra 6 has them. length counts as Java does;
// octet_length counts the bytes of the value in wire form.
func (l *Library) addLength() {
	l.add(&Function{Name: "length", Args: args(types.Text), Returns: native(types.Int),
		Eval: strict(func(a [][]byte) ([]byte, error) { return wire.AppendInt32(nil, int32(UTF16Length(a[0]))), nil })})
	for kind := types.Ascii; kind <= types.Varint; kind++ {
		l.add(&Function{Name: "octet_length", Args: args(kind), Returns: native(types.Int),
			Eval: strict(func(a [][]byte) ([]byte, error) { return wire.AppendInt32(nil, int32(len(a[0]))), nil })})
	}
}

// UTF16Length returns the number of UTF-16 code units of a text, as Java and therefore Cassandra count its length: a
// character outside of the Basic Multilingual Plane counts twice. An invalid byte counts as one character. For
// example, the length of one emoji beyond the plane is 2, in 4 bytes.
func UTF16Length(text []byte) int {
	n := 0
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		text = text[size:]
		n++
		if r > 0xFFFF {
			n++
		}
	}
	return n
}
