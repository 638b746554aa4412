package wasm

import (
	"encoding/binary"
	"fmt"
)

// The runtime does not count instructions, so metered rewrites the module before it is compiled: a mutable global contains the number of
// operations that are left. Each function subtracts, at its beginning, the number of its instructions that are outside of loops, and each
// loop, at the beginning of an iteration, the number of its own; instructions on memory and tables subtract for each 64 bytes. Below
// zero, the function traps. A call is therefore stopped at the same instruction on every node.

// meterName is the name of the exported global.
const meterName = "cqld:operations"

// The identifiers of sections. The binary format orders them so, except that 12 comes before 10.
const (
	typeSection     = 1
	importSection   = 2
	functionSection = 3
	tableSection    = 4
	globalSection   = 6
	exportSection   = 7
	codeSection     = 10
)

const (
	header   = 8
	typeI32  = 0x7f
	typeI64  = 0x7e
	mutable  = 1
	blockEnd = 0x0b
)

// moduleSection is a section of a module.
type moduleSection struct {
	id   byte
	body []byte
}

// metered returns a module that counts its operations.
func metered(module []byte, operations int64) ([]byte, error) {
	sections, err := sectionsOf(module)
	if err != nil {
		return nil, err
	}
	m := meter{}
	if err := m.read(sections); err != nil {
		return nil, err
	}
	global := append([]byte{typeI64, mutable, 0x42}, appendSigned(nil, operations)...)
	export := append(append(appendUnsigned(nil, uint64(len(meterName))), meterName...), 3)
	sections = withSection(sections, globalSection)
	out := append([]byte{}, module[:header]...)
	for _, s := range sections {
		switch s.id {
		case globalSection:
			s.body, err = withElement(s.body, append(global, blockEnd))
		case exportSection:
			s.body, err = withElement(s.body, appendUnsigned(export, uint64(m.global)))
		case codeSection:
			s.body, err = m.code(s.body)
		}
		if err != nil {
			return nil, err
		}
		out = append(appendUnsigned(append(out, s.id), uint64(len(s.body))), s.body...)
	}
	return out, nil
}

// sectionsOf divides a module into its sections.
func sectionsOf(b []byte) (sections []moduleSection, err error) {
	if len(b) < header || string(b[:4]) != "\x00asm" {
		return nil, errMalformed
	}
	r := reader{b[header:]}
	for len(r.b) > 0 {
		id := r.b[0]
		r.b = r.b[1:]
		size, ok := r.number()
		if !ok || uint64(size) > uint64(len(r.b)) {
			return nil, errMalformed
		}
		sections = append(sections, moduleSection{id, r.b[:size]})
		r.b = r.b[size:]
	}
	return sections, nil
}

// withSection returns sections with a section of the identifier id, which is empty if the module has none.
func withSection(sections []moduleSection, id byte) []moduleSection {
	for i, s := range sections {
		switch {
		case s.id == id:
			return sections
		case s.id > id: // a custom section has 0
			return append(append(append([]moduleSection{}, sections[:i]...), moduleSection{id, []byte{0}}), sections[i:]...)
		}
	}
	return append(sections, moduleSection{id, []byte{0}})
}

// withElement appends an element to the body of a section that is a vector.
func withElement(body, element []byte) ([]byte, error) {
	r := reader{body}
	n, ok := r.number()
	if !ok {
		return nil, errMalformed
	}
	return append(append(appendUnsigned(nil, uint64(n)+1), r.b...), element...), nil
}

// meter rewrites the functions of a module.
type meter struct {
	params    []uint32 // the number of parameters of each type of functions
	functions []uint32 // the type of each function
	global    uint32   // the index of the global
}

// read reads what the functions need of the other sections.
func (m *meter) read(sections []moduleSection) error {
	for _, s := range sections {
		r := reader{s.body}
		n, ok := r.number()
		if !ok && s.id != 0 {
			return errMalformed
		}
		switch s.id {
		case importSection:
			if n > 0 {
				return errImports
			}
		case globalSection:
			m.global = n
		case typeSection:
			for range n {
				if err := m.readType(&r); err != nil {
					return err
				}
			}
		case functionSection:
			for range n {
				t, ok := r.number()
				if !ok || int(t) >= len(m.params) {
					return errMalformed
				}
				m.functions = append(m.functions, t)
			}
		}
	}
	return nil
}

func (m *meter) readType(r *reader) error {
	r.skip(1)
	params, ok := r.number()
	r.skip(params)
	results, also := r.number()
	r.skip(results)
	if !ok || !also || r.b == nil {
		return errMalformed
	}
	m.params = append(m.params, params)
	return nil
}

// code rewrites the code section.
func (m *meter) code(body []byte) ([]byte, error) {
	r := reader{body}
	n, ok := r.number()
	if !ok || int64(n) != int64(len(m.functions)) {
		return nil, errMalformed
	}
	out := appendUnsigned(nil, uint64(n))
	for i := range n {
		size, ok := r.number()
		if !ok || uint64(size) > uint64(len(r.b)) {
			return nil, errMalformed
		}
		f, err := m.function(r.b[:size], m.params[m.functions[i]])
		if err != nil {
			return nil, err
		}
		out = append(appendUnsigned(out, uint64(len(f))), f...)
		r.b = r.b[size:]
	}
	return out, nil
}

// function rewrites one function, to which it adds a local variable.
func (m *meter) function(body []byte, params uint32) ([]byte, error) {
	r := reader{body}
	groups, ok := r.number()
	declared := r.b
	locals := uint64(params)
	for i := uint32(0); ok && i < groups; i++ {
		var n uint32
		n, ok = r.number()
		locals += uint64(n)
		r.skip(1)
	}
	const localsMax = 50000
	if !ok || r.b == nil || locals > localsMax {
		return nil, errMalformed
	}
	declared = declared[:len(declared)-len(r.b)]
	out := append(appendUnsigned(nil, uint64(groups)+1), declared...)
	out = append(out, 1, typeI32)
	w := instructions{meter: m, reader: r, local: uint32(locals)}
	return w.rewrite(out)
}

// charge returns instructions that subtract n operations, and trap if fewer are left.
func (m *meter) charge(n int64) []byte {
	return m.subtract(append([]byte{0x42}, appendSigned(nil, n)...))
}

// subtract returns instructions that subtract the i64 that amount computes.
func (m *meter) subtract(amount []byte) []byte {
	get, set := appendUnsigned([]byte{0x23}, uint64(m.global)), appendUnsigned([]byte{0x24}, uint64(m.global))
	b := append(append([]byte{}, get...), amount...)
	b = append(append(append(b, 0x7d), set...), get...)
	return append(b, 0x42, 0, 0x53, 0x04, 0x40, 0x00, blockEnd) // i64.const 0; i64.lt_s; if; unreachable; end
}

func appendUnsigned(dst []byte, n uint64) []byte { return binary.AppendUvarint(dst, n) }

// appendSigned appends a signed LEB128 number.
func appendSigned(dst []byte, n int64) []byte {
	for {
		b := byte(n & 0x7f)
		n >>= 7
		if n == 0 && b&0x40 == 0 || n == -1 && b&0x40 != 0 {
			return append(dst, b)
		}
		dst = append(dst, b|0x80)
	}
}

// errImports is the error for modules that need a host.
var errImports = fmt.Errorf("the module imports functions or memories; there is nothing to import")
