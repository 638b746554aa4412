package wasm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
)

// The runtime does not count instructions, so withMeter rewrites the module before it is compiled: a mutable global
// contains the number of remaining operations of the current quantum. Each function subtracts, at its beginning, the
// number of its instructions outside of loops, and each loop, at the beginning of an iteration, the number of
// instructions in its body; instructions on memory and tables subtract for each 64 bytes. Below zero, the function
// calls the host, which grants another quantum or ends the call. A call is therefore stopped at the same instruction
// on every node, and native code, which the scheduler cannot interrupt, runs for one quantum at most.

// meterName is the name of the exported global. hostName and quantumName are the module and the name of the imported
// function. It is the first function of the module, so that the indexes of all others grow by one.
const (
	meterName   = "cqld:operations"
	hostName    = "cqld"
	quantumName = "quantum"

	hostFunctions = 1
)

const (
	// The magic number and the version.
	header   = 8
	typeI32  = 0x7f
	typeI64  = 0x7e
	mutable  = 1
	blockEnd = 0x0b
)

// metered is a module that counts its operations.
type metered struct {
	// The rewritten module, without custom sections.
	binary []byte
	layout layout
	// work is the estimated work of the compiler, and largest that for one function at most.
	work, largest int64
	// uses describes what calls change.
	uses uses
}

// uses are the kinds of state that the code of a module can change.
type uses struct {
	// Stores, and instructions that copy or fill memory. Without them only arguments change it.
	memory bool
	// data.drop, elem.drop, and instructions that change tables. None of these can be undone.
	segments bool
}

// compilerBytes returns what the compiler needs in memory at most.
func (m *metered) compilerBytes() int64 {
	return compilerBytes + int64(len(m.binary))*compilerBytesPerModuleByte + m.work*codeBytesPerUnit +
		m.largest*compilerBytesPerUnit
}

// withMeter rewrites a module, within the bounds in limits.go. The error says what is not supported or exceeds a bound;
// the message is for the author of the function.
func withMeter(module []byte) (*metered, error) {
	sections, err := sectionsOf(module)
	if err != nil {
		return nil, err
	}
	m := meter{}
	if err := m.read(sections); err != nil {
		return nil, err
	}
	for _, id := range []byte{typeSection, importSection, globalSection} {
		// The rewritten module has these sections in any case: for the imported function and for the meter.
		sections = withSection(sections, id)
	}
	out := append([]byte{}, module[:header]...)
	for _, s := range sections {
		// read has read all sections, so all indexes are known.
		if s.body, err = m.section(s); err != nil {
			return nil, err
		}
		out = append(appendUnsigned(append(out, s.id), uint64(len(s.body))), s.body...)
	}
	return &metered{binary: out, layout: m.layout, work: m.workDone, largest: m.largest, uses: m.uses}, nil
}

// section rewrites a section, which read has checked.
func (m *meter) section(s moduleSection) ([]byte, error) {
	switch s.id {
	case typeSection: // of the imported function
		return withElements(s.body, []byte{0x60, 0, 0}), nil
	// Modules with imports were refused, so this is the only one.
	case importSection:
		i := append(appendName(appendName([]byte{1}, hostName), quantumName), 0)
		return appendUnsigned(i, uint64(len(m.types))), nil
	case globalSection: // the meter
		return withElements(s.body, []byte{typeI64, mutable, 0x42, 0, blockEnd}), nil
	case exportSection:
		return withElements(m.exported, m.exports()...), nil
	case startSection:
		r := reader{s.body}
		i, ok := r.number()
		if !ok {
			return nil, errMalformed
		}
		return appendUnsigned(nil, uint64(i)+hostFunctions), nil
	case elementSection:
		return m.elements, nil
	case codeSection:
		return m.code(s.body)
	}
	return s.body, nil
}

// exports returns the additional exports: the mutable globals, which a call changes, and the meter's.
func (m *meter) exports() (list [][]byte) {
	const kind = 3
	add := func(name string, index uint32) {
		list = append(list, appendUnsigned(append(appendName(nil, name), kind), uint64(index)))
	}
	add(meterName, m.globals)
	// With more of them instances are not used again, and need no reset.
	if len(m.mutable) <= resetGlobalsMax {
		for _, i := range m.mutable {
			add(globalName(i), i)
		}
	}
	return list
}

// globalName returns the name under which a mutable global is exported in addition.
func globalName(i uint32) string { return fmt.Sprintf("cqld:global:%d", i) }

// withSection returns sections with a section of the identifier id, which is empty if the module has none.
func withSection(sections []moduleSection, id byte) []moduleSection {
	i := 0
	// The format orders sections by their identifiers.
	for i < len(sections) && sections[i].id < id {
		i++
	}
	if i < len(sections) && sections[i].id == id {
		return sections
	}
	return slices.Insert(slices.Clone(sections), i, moduleSection{id, []byte{0}})
}

// withElements appends elements to the body of a section that is a vector.
func withElements(body []byte, elements ...[]byte) []byte {
	r := reader{body}
	n, _ := r.number()
	out := append(appendUnsigned(nil, uint64(n)+uint64(len(elements))), r.b...)
	return append(out, bytes.Join(elements, nil)...)
}

// appendName appends a name with its length.
func appendName(dst []byte, name string) []byte {
	return append(appendUnsigned(dst, uint64(len(name))), name...)
}

// meter rewrites the functions of a module. The index of its global follows the indexes of the module's globals.
type meter struct {
	layout
	// The estimated work for the functions that are rewritten, in the units of limits.go.
	workDone int64
	largest  int64 // the most for one of them
	uses     uses
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
		// Checked against the rest of the section, so the slice below is in range.
		size := r.count()
		if r.b == nil {
			return nil, errMalformed
		}
		f, err := m.function(r.b[:size], m.types[m.functions[i]])
		if err != nil {
			return nil, err
		}
		out = append(appendUnsigned(out, uint64(len(f))), f...)
		r.b = r.b[size:]
	}
	return out, nil
}

// function rewrites one function, to which it adds a local variable. of is the function's type. Its work is added to
// the module's.
func (m *meter) function(body []byte, of signature) ([]byte, error) {
	r := reader{body}
	groups := r.count()
	declared := r.b
	locals := uint64(of.params)
	// A group is a number of variables and their type.
	for range groups {
		n, _ := r.number()
		locals += uint64(n)
		r.skip(1)
	}
	if r.b == nil {
		return nil, errMalformed
	}
	if locals > localsMax {
		return nil, fmt.Errorf("a function has more than %d local variables", localsMax)
	}
	declared = declared[:len(declared)-len(r.b)]
	out := append(appendUnsigned(nil, uint64(groups)+1), declared...)
	// One more group: the variable in which growth and bulk instructions keep a number.
	out = append(out, 1, typeI32)
	w := instructions{meter: m, reader: r, local: uint32(locals), estimate: newEstimate(of, locals)}
	out, err := w.rewrite(out)
	if err != nil {
		return nil, err
	}
	work := w.total()
	if work > functionWorkMax {
		return nil, errFunctionWork
	}
	m.largest = max(m.largest, work)
	if m.workDone += work; m.workDone > moduleWorkMax {
		return nil, errModuleWork
	}
	return out, nil
}

// charge returns instructions that subtract n operations, and call the host if fewer are left.
func (m *meter) charge(n int64) []byte {
	return m.subtract(append([]byte{0x42}, appendSigned(nil, n)...))
}

// subtract returns instructions that subtract the i64 that amount computes.
func (m *meter) subtract(amount []byte) []byte {
	get, set := appendUnsigned([]byte{0x23}, uint64(m.globals)), appendUnsigned([]byte{0x24}, uint64(m.globals))
	b := append(append([]byte{}, get...), amount...)
	// global.get, amount, i64.sub, global.set: four instructions, and the global again for the comparison.
	b = append(append(append(b, 0x7d), set...), get...)
	// Negative means used up. The call returns after a grant, and the code continues.
	return append(b, 0x42, 0, 0x53, 0x04, 0x40, opCall, 0, blockEnd) // i64.const 0; i64.lt_s; if; call; end
}

// appendUnsigned appends an unsigned LEB128 number, which has the form of Go's uvarint.
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
