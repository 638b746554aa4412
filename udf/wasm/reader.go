package wasm

import "errors"

// errMalformed is the error for bytes that are not a module.
var errMalformed = errors.New("the body is not a WebAssembly module")

// reader reads the binary format. After a failure b is nil.
type reader struct{ b []byte }

// number reads an unsigned LEB128 number of 32 bits.
func (r *reader) number() (n uint32, ok bool) {
	const bytesMax = 5
	for i := range min(bytesMax, len(r.b)) {
		n |= uint32(r.b[i]&0x7f) << (7 * i)
		if r.b[i] < 0x80 {
			r.b = r.b[i+1:]
			return n, true
		}
	}
	// Longer than a number of 32 bits, or cut off.
	r.b = nil
	return 0, false
}

// count reads the number of elements of a vector. Each takes at least one byte: a larger number is a failure, so that
// the numbers of a module never make the decoder allocate more than a multiple of the module's size.
func (r *reader) count() uint32 {
	n, ok := r.number()
	// After a failure 0, so that loops over it end.
	if !ok || uint64(n) > uint64(len(r.b)) {
		r.b = nil
		return 0
	}
	return n
}

// signed reads a signed LEB128 number.
func (r *reader) signed() (n int64) {
	const bytesMax, sign = 10, 0x40
	for i := range min(bytesMax, len(r.b)) {
		n |= int64(r.b[i]&0x7f) << (7 * i)
		if r.b[i] < 0x80 {
			// The sign bit of the last byte extends to the left.
			if shift := 7 * (i + 1); shift < 64 && r.b[i]&sign != 0 {
				n |= -1 << shift
			}
			r.b = r.b[i+1:]
			return n
		}
	}
	r.b = nil
	return 0
}

// leb skips a LEB128 number.
func (r *reader) leb() {
	const bytesMax = 10
	for i := range min(bytesMax, len(r.b)) {
		if r.b[i] < 0x80 {
			r.b = r.b[i+1:]
			return
		}
	}
	r.b = nil
}

// skip skips n bytes.
func (r *reader) skip(n uint32) {
	if uint64(n) > uint64(len(r.b)) {
		r.b = nil
		return
	}
	r.b = r.b[n:]
}

// byte reads a byte.
func (r *reader) byte() byte {
	if len(r.b) == 0 {
		// 0 is also a valid byte: callers check b.
		r.b = nil
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

// expression skips a constant expression.
func (r *reader) expression() {
	for r.b != nil {
		switch r.byte() {
		case 0x41, 0x42, 0x23: // i32.const, i64.const, global.get; ref.func is in elements of tables only
			r.leb()
		case 0x43: // f32.const
			r.skip(4)
		case 0x44: // f64.const
			r.skip(8)
		case 0xd0: // ref.null
			r.skip(1)
		case blockEnd:
			return
		// Anything else is not a constant expression of the supported features.
		default:
			r.b = nil
		}
	}
}
