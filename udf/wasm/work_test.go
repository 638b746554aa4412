package wasm

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"cqld/internal/cputime"
	"cqld/internal/tier"
	"cqld/types"
)

// shape is a function in which a construct is repeated: head, n times unit, middle, n times closing, tail.
type shape struct {
	locals        int // how many, if not negative; otherwise n
	head, unit    []byte
	middle        []byte
	closing, tail []byte
	// at returns a part that depends on its number, which follows unit or precedes closing.
	atUnit, atClosing func(i int) []byte
	operands          func(n int) []byte // follow head
}

// module returns the module with n repetitions. Type 1 is () -> 200 × i32, type 2 200 × i32 -> 200 × i32.
func (s shape) module(n int) []byte {
	const wide = 200
	i32s := append(appendUnsigned(nil, wide), bytes.Repeat([]byte{0x7f}, wide)...)
	b := []byte("\x00asm\x01\x00\x00\x00")
	b = append(b, sized(typeSection, slices.Concat([]byte{3, 0x60, 2, 0x7f, 0x7f, 1, 0x7f, 0x60, 0}, i32s,
		[]byte{0x60}, i32s, i32s)...)...)
	b = append(b, sized(functionSection, 1, 0)...)
	b = append(b, sized(tableSection, 1, 0x70, 0, 1)...)
	b = append(b, sized(memorySection, 1, 0, 1)...)
	b = append(b, sized(globalSection, 1, 0x7f, 1, 0x41, 0, 0x0b)...)
	b = append(b, sized(exportSection, 1, 1, 'f', 0, 0)...)
	b = append(b, sized(dataCountSection, 1)...)
	locals := s.locals
	if locals < 0 {
		locals = n
	}
	body := append(append(appendUnsigned([]byte{1}, uint64(locals)), 0x7f), s.head...)
	if s.operands != nil {
		body = append(body, s.operands(n)...)
	}
	for i := range n {
		body = append(body, s.unit...)
		if s.atUnit != nil {
			body = append(body, s.atUnit(i)...)
		}
	}
	body = append(body, s.middle...)
	for i := range n {
		if s.atClosing != nil {
			body = append(body, s.atClosing(i)...)
		}
		body = append(body, s.closing...)
	}
	body = append(append(body, s.tail...), 0x0b)
	b = append(b, sized(codeSection, append(appendUnsigned([]byte{1}, uint64(len(body))), body...)...)...)
	return append(b, sized(dataSection, 1, 1, 1, 0)...)
}

func code(parts ...any) (b []byte) {
	for _, part := range parts {
		switch part := part.(type) {
		case int:
			b = append(b, byte(part))
		case rune:
			b = append(b, byte(part))
		case []byte:
			b = append(b, part...)
		}
	}
	return b
}

// onLocal returns instructions with the i-th variable of the function that is not a parameter.
func onLocal(before []byte, ops ...int) func(i int) []byte {
	return func(i int) []byte {
		b := slices.Clone(before)
		for _, op := range ops {
			if b = append(b, byte(op)); op >= opLocalGet && op <= opLocalTee {
				b = appendUnsigned(b, uint64(2+i))
			}
			if op == 0x41 {
				b = append(b, 1)
			}
		}
		return b
	}
}

// The instructions of shapes.
const (
	get, set, tee      = 0x20, 0x21, 0x22
	i32, add, drop     = 0x41, 0x6a, 0x1a
	loop, blk, end     = 0x03, 0x02, 0x0b
	cond, els, brif    = 0x04, 0x05, 0x0d
	none, table, fetch = 0x40, 0x0e, 0x28
)

func branchShapes() map[string]shape {
	zero := code(i32, 0)
	increment := code(get, 2, i32, 1, add, set, 2)
	wide := bytes.Repeat(code(get, 0), 200)
	narrow := bytes.Repeat(code(add), 199)
	targets := func(n int) []byte { return append(appendUnsigned(code(get, 0, table), uint64(n)), 0) }
	return map[string]shape{
		"if":              {unit: code(get, 0, cond, none, end), tail: zero},
		"if that assigns": {locals: 1, unit: code(get, 0, cond, none, increment, end), tail: zero},
		"if else": {locals: 9, unit: code(get, 0, cond, none, i32, 1, set, 3, els, get, 3, set, 4, end),
			tail: zero},
		"nested if":         {unit: code(get, 0, cond, none), closing: code(end), tail: zero},
		"nested if assigns": {locals: 1, unit: code(get, 0, cond, none), closing: code(increment, end), tail: zero},
		"nested block":      {unit: code(blk, none), closing: code(end), tail: zero},
		"nested loop":       {unit: code(loop, none), closing: code(end), tail: zero},
		"nested loop br_if": {unit: code(loop, none), closing: code(get, 0, brif, 0, end), tail: zero},
		"loop":              {unit: code(loop, none, get, 0, brif, 0, end), tail: zero},
		"br_table":          {head: code(blk, none), operands: targets, unit: code(0), tail: code(end, zero)},
		"br_table of many": {head: bytes.Repeat(code(blk, none), 100), operands: targets,
			atUnit: func(i int) []byte { return code(i % 100) }, tail: code(bytes.Repeat(code(end), 100), zero)},
		"small br_table": {unit: code(blk, none, get, 0, table, 3, 0, 0, 0, 0, end), tail: zero},
		"br_if":          {head: code(blk, none), unit: code(get, 0, brif, 0), tail: code(end, zero)},
		"br_if that assigns": {locals: 1, head: code(blk, none), unit: code(increment, get, 0, brif, 0),
			tail: code(end, zero)},
		"br_if that returns":   {unit: code(get, 0, get, 0, brif, 0, drop), tail: zero},
		"br_if with values":    {head: code(blk, 1, wide), unit: code(get, 0, brif, 0), tail: code(end, narrow)},
		"br_table with values": {head: code(blk, 1, wide), operands: targets, unit: code(0), tail: code(end, narrow)},
		"block with values":    {head: wide, unit: code(blk, 2, end), tail: narrow},
		"loop with values":     {head: wide, unit: code(loop, 2, get, 0, brif, 0, end), tail: narrow},
		"unreachable":          {head: code(0), unit: code(blk, none, end), tail: zero},
		"unreachable blocks":   {unit: code(blk, none, 0, end), tail: zero},
		"unreachable br_values": {head: code(blk, 1, 0),
			unit: code(blk, 1, 0, 0x0c, 1, end, bytes.Repeat(code(drop), 200)), tail: code(end, narrow)},
	}
}

func valueShapes() map[string]shape {
	zero := code(i32, 0)
	ifs := code(get, 0, cond, none, end)
	assign := onLocal(code(get, 0, i32, 1, add), set)
	return map[string]shape{
		"locals":          {locals: -1, tail: zero},
		"assigned locals": {locals: -1, atUnit: onLocal(code(i32, 1), set), tail: zero},
		"locals of a loop": {locals: -1, head: code(loop, none), atUnit: onLocal(nil, get, i32, add, set),
			tail: code(get, 0, brif, 0, end, zero)},
		"locals over ifs": {locals: -1, unit: ifs, atUnit: assign, middle: code(zero),
			atClosing: onLocal(nil, get, add)},
		"locals over loops": {locals: -1, atUnit: assign, middle: zero,
			atClosing: onLocal(code(loop, none), get, i32, add, tee), closing: code(brif, 0, end), tail: nil},
		"locals of branches": {locals: -1, head: code(blk, none), atUnit: onLocal(code(get, 0, brif, 0, i32, 1), set),
			middle: code(end, zero), atClosing: onLocal(nil, get, add)},
		"operands":           {head: zero, unit: code(get, 0), closing: code(add)},
		"operands of memory": {head: zero, unit: code(get, 0, fetch, 2, 0), closing: code(add)},
		"operands over ifs":  {head: zero, unit: code(get, 0, fetch, 2, 0, ifs), closing: code(add)},
		"sums":               {head: zero, unit: code(get, 1, add)},
		"constants":          {unit: code(i32, 1, drop), tail: zero},
		"calls":              {head: zero, unit: code(get, 1, 0x10, 0)},
		"operands of calls":  {head: zero, unit: code(get, 0, get, 1, 0x10, 0), closing: code(add)},
		"indirect calls":     {head: zero, unit: code(get, 1, get, 0, 0x11, 0, 0)},
		"select":             {head: zero, unit: code(get, 1, get, 0, 0x1b)},
		"chain of loads":     {head: zero, unit: code(fetch, 0, 0, get, 0, add)},
		"stores":             {unit: code(get, 0, fetch, 0, 0, get, 0, 0x36, 0, 0), tail: zero},
		"globals":            {unit: code(0x23, 0, i32, 1, add, 0x24, 0), tail: zero},
		"memory.grow":        {unit: code(get, 0, 0x40, 0, drop), tail: zero},
		"memory.fill":        {unit: code(get, 0, get, 0, get, 0, 0xfc, 11, 0), tail: zero},
		"memory.copy":        {unit: code(get, 0, get, 0, get, 0, 0xfc, 10, 0, 0), tail: zero},
		"memory.init":        {unit: code(get, 0, get, 0, get, 0, 0xfc, 8, 0, 0), tail: zero},
		"table.copy":         {unit: code(get, 0, get, 0, get, 0, 0xfc, 14, 0, 0), tail: zero},
	}
}

// instructionShapes returns a shape for each instruction on numbers.
func instructionShapes() map[string]shape {
	out := map[string]shape{}
	operands := [][]byte{code(i32, 0), code(0x42, 0), code(0x43, 0, 0, 0, 0), code(0x44, 0, 0, 0, 0, 0, 0, 0, 0)}
	add := func(op []byte) {
		for _, one := range operands {
			for _, unit := range [][]byte{code(one, op, drop), code(one, one, op, drop)} {
				s := shape{unit: unit, tail: code(i32, 0)}
				if _, err := compiledBytes(s.module(1)); err == nil {
					out[fmt.Sprintf("instruction %x", op)] = s
				}
			}
		}
	}
	for op := 0x45; op <= 0xc4; op++ {
		add(code(op))
	}
	for op := range 8 {
		add(code(0xfc, op))
	}
	for op := fetch; op <= 0x35; op++ {
		add(code(op, 0, 0))
	}
	return out
}

func compiledBytes(binary []byte) (*Program, error) {
	i := types.Native(types.Int)
	return Compile(Function{Body: base64.StdEncoding.EncodeToString(binary), Name: "f", ArgTypes: []*types.Type{i, i},
		Returns: i}, testLimits(), testPool(), unbounded)
}

// measured returns the bytes that f allocates, and the CPU time of the process meanwhile in nanoseconds.
func measured(f func()) (allocated, cpu int64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	from := cputime.Process()
	f()
	used := cputime.Process() - from
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc), int64(used)
}

// TestCompilationIsBounded repeats each construct until the module is refused or larger than possible. The largest
// module that is accepted must not make the compiler allocate more than the estimate says, and a unit of work must not
// take many times what it takes for simple sums.
func TestCompilationIsBounded(t *testing.T) {
	tier.Long(t)
	all := branchShapes()
	maps.Copy(all, valueShapes())
	maps.Copy(all, instructionShapes())
	const count = 170
	if len(all) < count {
		t.Errorf("%d constructs; want at least %d", len(all), count)
	}
	perUnit := map[string]float64{}
	for name, s := range all {
		limit := 1 << 18
		if strings.HasPrefix(name, "instruction") {
			limit = 2000
		}
		n, m, err := largest(s, limit)
		if m == nil {
			t.Errorf("%s: not accepted at all: %v", name, err)
			continue
		}
		var compileErr error
		allocated, cpu := measured(func() { _, compileErr = compiledBytes(s.module(n)) })
		if compileErr != nil {
			t.Errorf("%s: %d are accepted by the estimate, but not by the compiler: %v", name, n, compileErr)
		}
		// The text of the module, its copies, and the compiler's own constant memory.
		if most := 512*m.work + 16*int64(len(m.binary)) + 4<<20; allocated > most {
			t.Errorf("%s: %d take %d bytes to compile, %d units of work allow %d", name, n, allocated, m.work, most)
		}
		if m.work > functionWorkMax/4 {
			perUnit[name] = float64(cpu) / float64(m.work)
		}
	}
	for name, cost := range perUnit {
		if cost > 24*perUnit["sums"] {
			t.Errorf("%s: a unit of work takes %.0f ns, of simple sums %.0f ns", name, cost, perUnit["sums"])
		}
	}
}

// largest returns the largest accepted number of repetitions, in powers of two.
func largest(s shape, limit int) (n int, m *metered, err error) {
	for next := 16; next <= limit; next *= 2 {
		binary := s.module(next)
		if len(binary) > moduleBytesMax {
			return n, m, nil
		}
		rewritten, err := withMeter(binary)
		if err != nil {
			return n, m, err
		}
		n, m = next, rewritten
	}
	return n, m, nil
}

// TestLargeConstructsAreRefused compiles the modules that took minutes and gigabytes.
func TestLargeConstructsAreRefused(t *testing.T) {
	for _, x := range []struct {
		name string
		n    int
	}{{"if", 150_000}, {"br_table", 300_000}, {"locals over loops", 20_000}, {"nested if", 100_000}} {
		all := branchShapes()
		maps.Copy(all, valueShapes())
		binary := all[x.name].module(x.n)
		var err error
		allocated, _ := measured(func() { _, err = compiledBytes(binary) })
		if err == nil || allocated > 16*int64(len(binary)) {
			t.Errorf("%d × %s: %v, after %d bytes", x.n, x.name, err, allocated)
		}
	}
}

// TestFunctionsAreBounded declares many functions, each small, with many variables or parameters.
func TestFunctionsAreBounded(t *testing.T) {
	for name, x := range map[string]struct {
		params int
		body   []byte
	}{
		"functions":  {0, code(2, 0, end)},
		"variables":  {0, code(6, 1, 0xd0, 0x86, 0x03, 0x7f, end)}, // 50,000
		"parameters": {valuesMax, code(2, 0, end)},
	} {
		for n := 100; n <= 200_000; n *= 2 {
			b := []byte("\x00asm\x01\x00\x00\x00")
			b = append(b, sized(typeSection, code(1, 0x60, appendUnsigned(nil, uint64(x.params)),
				bytes.Repeat(code(0x7f), x.params), 0)...)...)
			b = append(b, sized(functionSection, code(appendUnsigned(nil, uint64(n)), bytes.Repeat(code(0), n))...)...)
			b = append(b, sized(codeSection, code(appendUnsigned(nil, uint64(n)), bytes.Repeat(x.body, n))...)...)
			m, err := withMeter(b)
			if err != nil {
				break
			}
			if len(b) > moduleBytesMax {
				t.Errorf("%d %s are accepted", n, name)
				break
			}
			if n > 1600 {
				continue
			}
			allocated, _ := measured(func() { _, _ = compiledBytes(b) })
			if most := 512*m.work + 64*int64(len(b)) + 4<<20; allocated > most {
				t.Errorf("%d %s take %d bytes, %d units of work allow %d", n, name, allocated, m.work, most)
			}
		}
	}
}

// TestNumbersAreNotBelieved checks that a number in a module never makes the decoder allocate more than the module has
// bytes.
func TestNumbersAreNotBelieved(t *testing.T) {
	huge := code(0xff, 0xff, 0xff, 0xff, 0x0f)
	header := "\x00asm\x01\x00\x00\x00"
	for name, section := range map[string][]byte{
		"types":            sized(typeSection, huge...),
		"parameters":       sized(typeSection, code(1, 0x60, huge)...),
		"imports":          sized(importSection, huge...),
		"functions":        sized(functionSection, huge...),
		"tables":           sized(tableSection, huge...),
		"globals":          sized(globalSection, huge...),
		"exports":          sized(exportSection, huge...),
		"name":             sized(exportSection, code(1, huge)...),
		"elements":         sized(elementSection, huge...),
		"functions of one": sized(elementSection, code(1, 0, i32, 0, end, huge)...),
		"expressions":      sized(elementSection, code(1, 4, i32, 0, end, huge)...),
		"codes":            sized(codeSection, huge...),
		"data":             sized(dataSection, huge...),
		"bytes of data":    sized(dataSection, code(1, 1, huge)...),
		"tags":             sized(13, huge...),
		"a custom section": sized(0, code(huge, 'x')...),
		"a section":        code(1, huge),
	} {
		allocated, _ := measured(func() { _, _ = compiledBytes(append([]byte(header), section...)) })
		if allocated > 1<<20 {
			t.Errorf("%s: %d bytes were allocated", name, allocated)
		}
	}
}

// TestMeterIsNotAccessible checks that code cannot set the number of operations that are left, nor call the host.
func TestMeterIsNotAccessible(t *testing.T) {
	for name, b := range map[string][]byte{
		"set": code(0x42, 0, 0x24, 1, i32, 0), "read": code(0x23, 1, drop, i32, 0), "call": code(0x10, 1, i32, 0),
		"local": code(get, 2),
	} {
		if _, err := compiledBytes(shape{tail: b}.module(0)); !errors.Is(err, errMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
