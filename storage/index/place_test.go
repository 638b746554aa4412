package index

import (
	"bytes"
	"testing"

	"cqld/row"
)

// FuzzParseEntry parses keys of entries: the parts of one that is well formed make the same key again, and terms keep
// their order.
func FuzzParseEntry(f *testing.F) {
	key := row.NewPartitionKey([]byte("key"))
	for _, term := range [][]byte{{}, []byte("term"), {0}, {0, 1}, {0, 0xFF}, {0xFF}} {
		f.Add(AppendPlace(appendTerm(appendIndex(nil, 7), term), key, row.KindRow, []byte{0x80, 1}))
	}
	f.Add([]byte{0, 0, 0, 7, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, ok := parseEntry(b); ok {
			again := append(appendIndex(nil, e.index), e.term...)
			if again = AppendPlace(again, e.key, e.kind, e.clustering); !bytes.Equal(again, b) {
				t.Errorf("%x, made again %x", b, again)
			}
			if n, ok := splitTerm(e.term); !ok || n != len(e.term) {
				t.Errorf("the term %x ends after %d bytes", e.term, n)
			}
		}
		// Any bytes are a term: it can be parsed again, and is before its own extension.
		escaped := appendTerm(nil, b)
		if n, ok := splitTerm(escaped); !ok || n != len(escaped) || !bytes.Equal(consumeTerm(nil, escaped), b) {
			t.Errorf("the term %x became %x", b, escaped)
		}
		longer := append(bytes.Clone(b), 0)
		if bytes.Compare(escaped, appendTerm(nil, longer)) >= 0 ||
			bytes.Compare(escaped, appendTermBound(nil, longer)) >= 0 ||
			bytes.Compare(appendTermBound(nil, b), escaped) > 0 {
			t.Errorf("the term %x is not before %x", b, longer)
		}
	})
}

// FuzzPositions takes positions that a client may have sent back: they never panic.
func FuzzPositions(f *testing.F) {
	key := row.NewPartitionKey([]byte("key"))
	f.Add(AppendPlaceEnd(nil, key))
	f.Add(AppendPlace(appendTerm(nil, []byte("term")), key, row.KindRow, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, order := range []Order{ByToken, ByTerm, ByScore} {
			place := PlaceOf(order, Position(b))
			k, kind, clustering, ok := ParsePlace(place)
			if ok && !bytes.Equal(AppendPlace(nil, k, kind, clustering), place) {
				t.Errorf("the place %x is not made again", place)
			}
		}
	})
}
