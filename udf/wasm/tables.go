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
	sections, err := sectionsOf(b)
	if err != nil {
		return err
	}
	for _, s := range sections {
		if s.id == tableSection {
			if err := checkTableSection(reader{s.body}); err != nil {
				return err
			}
		}
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
