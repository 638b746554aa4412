package wasm

import (
	"errors"
	"fmt"
)

// The identifiers of sections. The binary format orders them so, except that 12 comes before 10.
const (
	typeSection      = 1
	importSection    = 2
	functionSection  = 3
	tableSection     = 4
	memorySection    = 5
	globalSection    = 6
	exportSection    = 7
	startSection     = 8
	elementSection   = 9
	codeSection      = 10
	dataSection      = 11
	dataCountSection = 12
)

// moduleSection is a section of a module.
type moduleSection struct {
	id   byte
	body []byte
}

// sectionsOf divides a module into its sections. Custom sections, with names and debug information, are omitted: they
// are not needed, and formats that nothing needs are not decoded.
func sectionsOf(b []byte) (sections []moduleSection, err error) {
	if len(b) < header || string(b[:4]) != "\x00asm" {
		return nil, errMalformed
	}
	r := reader{b[header:]}
	seen := [dataCountSection + 1]bool{}
	for len(r.b) > 0 {
		id := r.byte()
		size := r.count()
		if r.b == nil || id > dataCountSection || id != 0 && seen[id] {
			return nil, errMalformed
		}
		// Custom sections (0) may be repeated, and are omitted.
		seen[id] = true
		if id != 0 {
			sections = append(sections, moduleSection{id, r.b[:size]})
		}
		r.b = r.b[size:]
	}
	return sections, nil
}

// signature is the number of parameters and results of a type of functions.
type signature struct{ params, results uint32 }

// layout describes a module, without its code.
type layout struct {
	// The types of functions, by index.
	types []signature
	// The index of the type of each function of the module.
	functions []uint32
	// The number of globals; the meter's own has this index.
	globals   uint32
	hasMemory bool
	// The bytes of memory of a new instance.
	memory int64
	// mutable are the mutable globals, which calls change.
	mutable []uint32
	// initialization is the number of operations that a new instance takes: its memory, its data and its tables.
	initialization int64

	// The bodies of the export and element sections, with the new indexes of functions.
	exported, elements []byte
}

// read reads sections. Each number in them is checked against the bytes that follow it.
func (l *layout) read(sections []moduleSection) error {
	for _, s := range sections {
		r := reader{s.body}
		// No vectors: a single number each.
		if s.id == startSection || s.id == dataCountSection {
			continue
		}
		n := r.count()
		if r.b == nil {
			return errMalformed
		}
		if s.id == importSection && n > 0 {
			return errImports
		}
		switch s.id {
		case codeSection:
			continue // see instructions
		case exportSection:
			l.exported = appendUnsigned(nil, uint64(n))
		case elementSection:
			l.elements = appendUnsigned(nil, uint64(n))
		}
		for range n {
			if err := l.element(s.id, &r); err != nil {
				return err
			}
			if r.b == nil {
				return errMalformed
			}
		}
	}
	return nil
}

// element reads an element of a section. A failure leaves r.b nil, which read checks.
func (l *layout) element(section byte, r *reader) error {
	switch section {
	case typeSection:
		return l.readType(r)
	case functionSection:
		t, _ := r.number()
		if int(t) >= len(l.types) {
			return errMalformed
		}
		l.functions = append(l.functions, t)
	case tableSection:
		r.skip(1)
		// The maximum does not matter: table.grow is not supported.
		least := r.limits()
		if least > tableMax {
			return fmt.Errorf("the module has a table of %d elements; no more than %d are possible", least, tableMax)
		}
		l.initialization += int64(least)
	case memorySection:
		l.hasMemory = true
		l.memory = int64(r.limits()) * pageBytes
		// The new instance must clear it.
		l.initialization += l.memory / bytesPerOperation
	case globalSection:
		r.skip(1)
		if r.byte() == mutable {
			l.mutable = append(l.mutable, l.globals)
		}
		r.expression()
		if l.globals++; l.globals > globalsMax {
			return fmt.Errorf("the module has more than %d global variables", globalsMax)
		}
	case exportSection:
		l.readExport(r)
	case elementSection:
		return l.readElements(r)
	case dataSection:
		l.readData(r)
	}
	return nil
}

// limits reads the limits of a table or memory, and returns the minimum.
func (r *reader) limits() uint32 {
	flags := r.byte()
	least, _ := r.number()
	// A maximum follows.
	if flags&1 != 0 {
		r.leb()
	}
	return least
}

// readType reads a type of functions. Only the numbers of its values matter here.
func (l *layout) readType(r *reader) error {
	// The byte that begins a type of functions; the runtime checks it.
	r.skip(1)
	params := r.count()
	r.skip(params)
	results := r.count()
	r.skip(results)
	if params > valuesMax || results > valuesMax {
		return fmt.Errorf("the module has functions or blocks with more than %d parameters or results", valuesMax)
	}
	l.types = append(l.types, signature{params, results})
	return nil
}

// since returns the bytes that r has read since it was at before.
func (r *reader) since(before []byte) []byte { return before[:len(before)-len(r.b)] }

// shifted reads the index of a function, and appends its new one.
func (r *reader) shifted(dst []byte) []byte {
	i, _ := r.number()
	return appendUnsigned(dst, uint64(i)+hostFunctions)
}

// readExport reads an export, and copies it with the new index if it is a function.
func (l *layout) readExport(r *reader) {
	before := r.b
	r.skip(r.count())
	// Only indexes of functions change.
	isFunction := r.byte() == 0
	if isFunction {
		l.exported = r.shifted(append(l.exported, r.since(before)...))
		return
	}
	r.leb()
	l.exported = append(l.exported, r.since(before)...)
}

// readElements reads a segment of a table. Bit 0 of its kind: it is passive or declarative, which the runtime supports
// only with reference types; bit 1: it names its table; bit 2: its elements are expressions. The segment is copied with
// the new indexes of its functions.
func (l *layout) readElements(r *reader) error {
	before := r.b
	kind, _ := r.number()
	passive, named, expressions := kind&1 != 0, kind&2 != 0, kind&4 != 0
	if passive {
		return errors.New("passive elements of tables are not supported")
	}
	if named {
		r.leb()
	}
	r.expression()
	if named {
		r.skip(1) // the kind or type of the elements
	}
	n := r.count()
	l.initialization += int64(n)
	l.elements = append(l.elements, r.since(before)...)
	for range n {
		before := r.b
		switch {
		// A list of indexes.
		case !expressions:
			l.elements = r.shifted(l.elements)
		// ref.func with an index; any other expression is ref.null or a global.
		case len(before) > 0 && before[0] == opRefFunc:
			r.skip(1)
			l.elements = r.shifted(append(l.elements, opRefFunc))
			before = r.b
			r.expression() // its end
			l.elements = append(l.elements, r.since(before)...)
		default:
			r.expression()
			l.elements = append(l.elements, r.since(before)...)
		}
		if r.b == nil {
			return errMalformed
		}
	}
	return nil
}

// readData reads a segment of memory.
func (l *layout) readData(r *reader) {
	const passive, named = 1, 2
	kind, _ := r.number()
	// Other kinds are not defined.
	if kind > named {
		r.b = nil
	}
	if kind == named {
		r.leb()
	}
	// The address, as a constant expression.
	if kind != passive {
		r.expression()
	}
	size := r.count()
	r.skip(size)
	// The segment is copied to the memory of each new instance.
	l.initialization += int64(size)/bytesPerOperation + 1
}
