package types

import (
	"bytes"
	"fmt"
)

// SkipOrdered skips one component at the front of src without decoding the value, and returns the remainder. It is for
// readers that need a later component. It accepts what ConsumeOrdered accepts, but checks values less.
func (t *Type) SkipOrdered(src []byte, desc bool) (rest []byte, err error) {
	r := orderedReader{src: src}
	if desc {
		r.mask = 0xFF
	}
	skipOrdered(t, &r)
	if r.bad {
		return nil, fmt.Errorf("%w of type %s", ErrOrdered, t)
	}
	return r.src, nil
}

// skipOrdered skips a component with its tag.
func skipOrdered(t *Type, r *orderedReader) {
	switch r.byte() {
	case tagNull, tagEmpty:
	case tagValue:
		skipBody(t, r)
	case tagMalformed:
		r.skipEscaped()
	default:
		r.fail()
	}
}

// skipBody skips a body. It is parallel to consumeBody.
func skipBody(t *Type, r *orderedReader) {
	// The size of the ordered form equals the size of the wire form for these kinds.
	if n := fixedSize(t.kind); n != 0 {
		r.skip(n)
		return
	}
	switch t.kind {
	case Varint:
		r.skip(r.varintSize())
	case Decimal:
		r.skipDecimal()
	case List, Set, Map:
		for !r.end() && !r.bad {
			for _, e := range t.elems {
				skipOrdered(e, r)
			}
		}
	case Tuple, UDT:
		for i := 0; !r.end() && !r.bad; i++ {
			if i == len(t.elems) {
				r.fail()
				return
			}
			skipOrdered(t.elems[i], r)
		}
	case Vector:
		for i := 0; i < t.dims && !r.bad; i++ {
			skipOrdered(t.elems[0], r)
		}
	// r continues after the value; the decoded bytes are dropped.
	case Custom:
		// Legacy types are rare: decoding them is good enough.
		consumeLegacy(t, nil, r)
	default:
		r.skipEscaped()
	}
}

// skip skips n bytes.
func (r *orderedReader) skip(n int) {
	// n may come from damaged bytes.
	if n < 0 || len(r.src) < n {
		r.fail()
		return
	}
	r.src = r.src[n:]
}

// skipEscaped skips escaped bytes and their terminator.
func (r *orderedReader) skipEscaped() {
	for {
		// A zero byte is always the first of two.
		i := bytes.IndexByte(r.src, escape^r.mask)
		if i < 0 || i+1 >= len(r.src) {
			r.fail()
			return
		}
		b := r.src[i+1] ^ r.mask
		r.src = r.src[i+2:]
		if b == escapeTerminator {
			return
		}
		if b != escapedZero {
			r.fail()
			return
		}
	}
}

// skipDecimal skips a decimal. Pairs are never equal to the end, so that it can be searched.
func (r *orderedReader) skipDecimal() {
	end := byte(bodyEnd) ^ r.mask
	switch r.byte() {
	case decimalZero:
		return
	case decimalNegative:
		// Negative numbers are inverted, with their end.
		end ^= 0xFF
	case decimalPositive:
	default:
		r.fail()
		return
	}
	r.skip(exponentBytes)
	n := bytes.IndexByte(r.src, end) + 1
	if n == 0 {
		r.fail()
	}
	r.skip(n)
}
