package wasm

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"cqld/internal/wire"
	"cqld/types"
	"cqld/udf/value"
)

// sized returns a section with a body of any size.
func sized(id byte, body ...byte) []byte {
	return append(appendUnsigned([]byte{id}, uint64(len(body))), body...)
}

// memoryModule returns a module with a memory of one page, at most the given pages, with alloc and the function f of
// the type (i64, i64) -> i64. alloc returns increasing addresses from 1024 on.
func memoryModule(pagesMax byte, f ...byte) string {
	b := []byte("\x00asm\x01\x00\x00\x00")
	b = append(b, sized(typeSection, 2, 0x60, 2, 0x7e, 0x7e, 1, 0x7e, 0x60, 1, 0x7f, 1, 0x7f)...)
	b = append(b, sized(functionSection, 2, 0, 1)...)
	b = append(b, sized(5, 1, 1, 1, pagesMax)...)
	b = append(b, sized(globalSection, 1, 0x7f, 1, 0x41, 0x80, 0x08, 0x0b)...) // i32 1024
	b = append(b, sized(exportSection, append([]byte("\x03\x01f\x00\x00\x05alloc\x00\x01\x06memory"), 2, 0)...)...)
	body := append(append([]byte{0}, f...), 0x0b)
	// global.get; local.get; global.get; i32.add; global.set
	alloc := []byte{0, 0x23, 0, 0x20, 0, 0x23, 0, 0x6a, 0x24, 0, 0x0b}
	code := append(append(appendUnsigned([]byte{2}, uint64(len(body))), body...),
		append(appendUnsigned(nil, uint64(len(alloc))), alloc...)...)
	return base64.StdEncoding.EncodeToString(append(b, sized(codeSection, code...)...))
}

func memoryProgram(t *testing.T, arg, returns *types.Type, body string) *Program {
	t.Helper()
	p, err := Compile(Function{Body: body, Name: "f", ArgTypes: []*types.Type{arg, arg}, Returns: returns,
		CalledOnNull: true}, testLimits(), testPool(), unbounded)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func testLimits() value.Limits {
	return value.Limits{Steps: 100_000, Bytes: 1 << 20, Output: 1 << 16, Time: 20 * time.Second}
}

// TestValuesInMemory passes values of each kind in memory, and returns the second argument as it is.
func TestValuesInMemory(t *testing.T) {
	text, number := types.Native(types.Text), types.Native(types.Int)
	list := wire.AppendBytes(wire.AppendBytes(wire.AppendUint32(nil, 2), []byte("a")), []byte("bc"))
	entries := wire.AppendBytes(wire.AppendBytes(wire.AppendUint32(nil, 1), []byte("k")), []byte{0, 0, 0, 7})
	for _, x := range []struct {
		typ  *types.Type
		wire []byte
	}{
		{text, []byte("grün")},
		{text, []byte{}},
		{text, nil},
		{number, []byte{0, 0, 0, 5}},
		{types.Native(types.Blob), bytes.Repeat([]byte{0, 0xff}, 10_000)},
		{types.NewList(text, true), list},
		{types.NewSet(text, true), list},
		{types.NewMap(text, number, true), entries},
		{types.NewTuple(text, number), wire.AppendBytes(wire.AppendBytes(nil, []byte("x")), nil)},
		{types.NewVector(number, 2), []byte{0, 0, 0, 1, 0, 0, 0, 2}},
	} {
		p := memoryProgram(t, x.typ, x.typ, memoryModule(16, 0x20, 1)) // local.get 1
		got, err := p.Run(testCall(), [][]byte{[]byte("first"), x.wire})
		if err != nil || !bytes.Equal(got, x.wire) || (got == nil) != (x.wire == nil) {
			t.Errorf("%s: %x, %v; want %x", x.typ, got, err, x.wire)
		}
	}
}

// TestResultsInMemoryAreChecked returns addresses and values that are not valid.
func TestResultsInMemoryAreChecked(t *testing.T) {
	text := types.Native(types.Text)
	list := types.NewList(text, true)
	invalid := []byte{0x42}
	for name, x := range map[string]struct {
		returns *types.Type
		code    []byte
		want    string
	}{
		"outside of the memory": {text, append(invalid, appendSigned(nil, 10<<32|0x7fffffff)...),
			"outside of the memory"},
		"negative address": {text, append(invalid, appendSigned(nil, 1<<32|0xffffffff)...),
			"outside of the memory"},
		"larger than possible": {text, append(invalid, appendSigned(nil, 0x10001<<32)...), "too large"},
		"not a list": {list, append(invalid, appendSigned(nil, 3<<32)...),
			"Not enough bytes to read a list"},
		"a trap":               {text, []byte{0x00}, "unreachable"},
		"a load out of bounds": {text, []byte{0x41, 0x7f, 0x29, 3, 0}, "out of bounds"},
	} {
		_, err := memoryProgram(t, text, x.returns, memoryModule(16, x.code...)).Run(testCall(), [][]byte{{}, {}})
		var fault *value.Fault
		if !errors.As(err, &fault) || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := memoryProgram(t, types.Native(types.Blob), text, memoryModule(16, 0x20, 1)).Run(testCall(),
		[][]byte{{}, {0xff}}); err == nil {
		t.Error("bytes that are not UTF-8 are a text")
	}
	// Arguments that the module has no memory for: alloc returns an address outside.
	if _, err := memoryProgram(t, text, text, memoryModule(16, 0x20, 1)).Run(testCall(),
		[][]byte{make([]byte, 1<<20), {}}); err == nil {
		t.Error("an argument larger than the memory was passed")
	}
}

// TestOperationsAreCounted checks that loops, recursion and bulk instructions end by the number of operations, always
// at the same one.
func TestOperationsAreCounted(t *testing.T) {
	const i32, get0, br = 0x41, 0x20, 0x0c
	loop := []byte{0x03, 0x40, br, 0, 0x0b}
	fill := []byte{i32, 0, i32, 0, i32, 0x80, 0x80, 0x3c, 0xfc, 11, 0} // memory.fill of 983,040 bytes
	for name, code := range map[string][]byte{
		"loop":         append(append([]byte{}, loop...), 0x42, 0),
		"nested loops": append(append([]byte{0x03, 0x40}, loop...), 0x0b, 0x42, 0),
		"growth":       {0x03, 0x40, i32, 1, 0x40, 0, 0x1a, br, 0, 0x0b, 0x42, 0},
		"fills":        append(append([]byte{i32, 15, 0x40, 0, 0x1a}, bytes.Repeat(fill, 100)...), 0x42, 0),
		"fills in a loop": append(append(append([]byte{i32, 15, 0x40, 0, 0x1a, 0x03, 0x40}, fill...),
			br, 0, 0x0b), 0x42, 0),
	} {
		p := memoryProgram(t, types.Native(types.Text), types.Native(types.Text), memoryModule(16, code...))
		var exceeded *value.Exceeded
		if _, err := p.Run(testCall(), [][]byte{{}, {}}); !errors.As(err, &exceeded) ||
			exceeded.Reason != "it executed more than 100000 operations" {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A loop that counts its first argument down ends within the bound, or not, at a fixed number.
	countdown := []byte{0x03, 0x40, get0, 0, i32, 1, 0x6b, 0x22, 0, 0x0d, 0, 0x0b, i32, 0}
	p, err := compiled(t, module(nil, countdown...))
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for low, high := 1, 100_000; low <= high; {
		middle := (low + high) / 2
		if _, err := p.Run(testCall(), [][]byte{wire.AppendUint32(nil, uint32(middle)), {0, 0, 0, 0}}); err == nil {
			last, low = middle, middle+1
		} else {
			high = middle - 1
		}
	}
	if last != 16_666 { // (100,000 - 3 outside of the loop) / 6 in it
		t.Errorf("a loop of 6 instructions has %d iterations in 100000 operations", last)
	}
}

// TestHostileModules compiles modules that are refused, or that use much, and checks that their calls end.
func TestHostileModules(t *testing.T) {
	deep := bytes.Repeat([]byte{0x03, 0x40}, 100_000)
	deep = append(append(deep, bytes.Repeat([]byte{0x0b}, 100_000)...), 0x41, 0)
	flat := append(bytes.Repeat([]byte{0x03, 0x40, 0x0b}, 400), 0x03, 0x40, 0x0c, 0, 0x0b, 0x41, 0)
	header := "\x00asm\x01\x00\x00\x00"
	function := string(sized(typeSection, 1, 0x60, 2, 0x7f, 0x7f, 1, 0x7f)) + string(sized(functionSection, 1, 0))
	for name, binary := range map[string]string{
		"nesting": header + function + string(sized(exportSection, 1, 1, 'f', 0, 0)) +
			string(sized(codeSection, codeOf(deep)...)),
		"many loops": header + function + string(sized(exportSection, 1, 1, 'f', 0, 0)) +
			string(sized(codeSection, codeOf(flat)...)),
		"locals": header + function + string(sized(exportSection, 1, 1, 'f', 0, 0)) +
			string(sized(codeSection, 1, 10, 1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x7e, 0x41, 0, 0x0b)),
		"an import": header + string(sized(typeSection, 1, 0x60, 0, 0)) +
			string(sized(importSection, []byte("\x01\x03env\x01g\x00\x00")...)) + function,
		"start of a loop": header + string(sized(typeSection, 2, 0x60, 2, 0x7f, 0x7f, 1, 0x7f, 0x60, 0, 0)) +
			string(sized(functionSection, 2, 0, 1)) + string(sized(exportSection, 1, 1, 'f', 0, 0)) +
			string(sized(8, 1)) + string(sized(codeSection, 2, 4, 0, 0x41, 0, 0x0b, 7, 0, 0x03, 0x40, 0x0c, 0, 0x0b,
			0x0b)),
		"many functions": header + string(sized(typeSection, 1, 0x60, 0, 0)) +
			string(sized(functionSection, 0xff, 0xff, 0xff, 0xff, 0x0f)),
		"a truncated code": header + function + string(sized(exportSection, 1, 1, 'f', 0, 0)) +
			string(sized(codeSection, 1, 3, 0, 0x41, 0)),
		"the meter's name": header + function + string(sized(globalSection, 1, 0x7e, 1, 0x42, 0, 0x0b)) +
			string(sized(exportSection, append([]byte("\x02\x01f\x00\x00\x0fcqld:operations"), 3, 0)...)) +
			string(sized(codeSection, 1, 4, 0, 0x41, 0, 0x0b)),
		"a huge memory": header + string(sized(5, 1, 0, 0xff, 0xff, 0x03)) + function,
		"memory 64":     header + string(sized(5, 1, 4, 1)) + function,
		"reference types": header + function + string(sized(exportSection, 1, 1, 'f', 0, 0)) +
			string(sized(codeSection, 1, 7, 0, 0xd0, 0x70, 0x1a, 0x41, 0, 0x0b)),
		"vector operations": header + function + string(sized(exportSection, 1, 1, 'f', 0, 0)) +
			string(sized(codeSection, 1, 7, 0, 0xfd, 0x0f, 0x1a, 0x41, 0, 0x0b)),
	} {
		p, err := compiled(t, base64.StdEncoding.EncodeToString([]byte(binary)))
		if err != nil {
			continue
		}
		if _, err := p.Run(testCall(), [][]byte{{0, 0, 0, 1}, {0, 0, 0, 1}}); err == nil && name != "a huge memory" {
			t.Errorf("%s: accepted and executed", name)
		}
	}
}

// codeOf returns the body of a code section with one function.
func codeOf(instructions []byte) []byte {
	body := append(append([]byte{0}, instructions...), 0x0b)
	return append(appendUnsigned([]byte{1}, uint64(len(body))), body...)
}
