package wasm

import (
	"errors"
	"fmt"
)

// errMalformed is the error for bytes that are not a module.
var errMalformed = errors.New("the body is not a WebAssembly module")

// checkTables refuses modules with large tables, which the runtime would allocate for each call. Without the feature of reference types
// tables do not grow.
func checkTables(b []byte) error {
	const header = 8
	if len(b) < header || string(b[:4]) != "\x00asm" {
		return errMalformed
	}
	r := reader{b[header:]}
	for len(r.b) > 0 {
		id := r.b[0]
		r.b = r.b[1:]
		size, ok := r.number()
		if !ok || uint64(size) > uint64(len(r.b)) {
			return errMalformed
		}
		const tableSection = 4
		if id == tableSection {
			if err := checkTableSection(reader{r.b[:size]}); err != nil {
				return err
			}
		}
		r.b = r.b[size:]
	}
	return nil
}

func checkTableSection(r reader) error {
	n, ok := r.number()
	if !ok || n > 1 {
		return errMalformed
	}
	for range n {
		const kindAndFlags = 2
		if len(r.b) < kindAndFlags {
			return errMalformed
		}
		r.b = r.b[kindAndFlags:]
		least, ok := r.number()
		if !ok {
			return errMalformed
		}
		if least > tableMax {
			return fmt.Errorf("the module has a table of %d elements; no more than %d are possible", least, tableMax)
		}
	}
	return nil
}

// reader reads the binary format.
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
	return 0, false
}
