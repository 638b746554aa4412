package wasm

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"cqld/types"
	"cqld/udf/value"
)

// section returns a section of a module.
func section(id byte, content ...byte) []byte {
	return append([]byte{id, byte(len(content))}, content...)
}

// module returns a module in base64 that exports the function f of the type (i32, i32) -> i32 with the instructions of
// code.
func module(extra []byte, code ...byte) string {
	b := []byte("\x00asm\x01\x00\x00\x00")
	b = append(b, section(1, 1, 0x60, 2, 0x7f, 0x7f, 1, 0x7f)...) // one type
	b = append(b, section(3, 1, 0)...)                            // one function of it
	b = append(b, extra...)
	b = append(b, section(7, 1, 1, 'f', 0, 0)...) // exported as f
	body := append([]byte{0}, append(code, 0x0b)...)
	b = append(b, section(10, append([]byte{1, byte(len(body))}, body...)...)...)
	return base64.StdEncoding.EncodeToString(b)
}

func compiled(t *testing.T, body string) (*Program, error) {
	t.Helper()
	i := types.Native(types.Int)
	return Compile(Function{Body: body, Name: "f", ArgTypes: []*types.Type{i, i}, Returns: i},
		value.Limits{Steps: 100_000, Bytes: 1 << 20, Output: 1 << 16, Time: 5 * time.Second}, testPool(), unbounded)
}

// idleBytesMax bounds the idle instances of a test.
const idleBytesMax = 32 << 20

func testPool() *Pool { return NewPool(nil, idleBytesMax) }

func unbounded(int64) error { return nil }

func testCall() *value.Meter { return value.NewMeter(testLimits(), nil) }

func TestCall(t *testing.T) {
	p, err := compiled(t, module(nil, 0x20, 0, 0x20, 1, 0x6a)) // a + b
	if err != nil {
		t.Fatal(err)
	}
	i := types.Native(types.Int)
	b, err := p.Run(testCall(), [][]byte{i.AppendInt64(nil, 40), i.AppendInt64(nil, 2)})
	if n, _ := i.Int64(b); err != nil || n != 42 {
		t.Errorf("%v %v", b, err)
	}
}

func TestFaultsEndTheCall(t *testing.T) {
	args := [][]byte{{0, 0, 0, 1}, {0, 0, 0, 0}}
	p, err := compiled(t, module(nil, 0x20, 0, 0x20, 1, 0x6d)) // a / b
	if err != nil {
		t.Fatal(err)
	}
	var fault *value.Fault
	if _, err := p.Run(testCall(), args); !errors.As(err, &fault) {
		t.Errorf("division by zero: %v", err)
	}
	p, err = compiled(t, module(nil, 0x03, 0x40, 0x0c, 0, 0x0b, 0x41, 0)) // an endless loop
	if err != nil {
		t.Fatal(err)
	}
	var exceeded *value.Exceeded
	if _, err := p.Run(testCall(), args); !errors.As(err, &exceeded) {
		t.Errorf("endless loop: %v", err)
	}
	p, err = compiled(t, module(nil, 0x20, 0, 0x20, 1, 0x10, 0)) // calls itself
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(testCall(), args); err == nil {
		t.Error("endless recursion returned")
	}
}

func TestRefusals(t *testing.T) {
	for name, x := range map[string]struct{ body, want string }{
		"not base64":   {"!", "not a WebAssembly module in base64"},
		"not a module": {"AAAA", "not a WebAssembly module"},
		"large table": {module(section(4, 1, 0x70, 0, 0xff, 0xff, 0xff, 0x07), 0x41, 0),
			"has a table of 16777215 elements"},
		"large memory":    {module(section(5, 1, 0, 0x80, 0x08), 0x41, 0), "memory"},
		"invalid code":    {module(nil, 0x6a), ""},
		"another result":  {strings.Replace(module(nil, 0x42, 0), "", "", 1), ""},
		"large text only": {strings.Repeat("A", 2<<20), "has more than"},
	} {
		if _, err := compiled(t, x.body); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzCompile compiles arbitrary modules. A module that is accepted must not take more memory than its estimate allows.
func FuzzCompile(f *testing.F) {
	f.Add([]byte("\x00asm\x01\x00\x00\x00"))
	f.Add(stateful(1, true, code(get, 0, get, 1, add)))
	for _, s := range branchShapes() {
		f.Add(s.module(20))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		most := 64*int64(len(b)) + 8<<20
		if m, err := withMeter(b); err == nil {
			most += 512 * m.work
		}
		allocated, _ := measured(func() { _, _ = compiled(t, base64.StdEncoding.EncodeToString(b)) })
		if allocated > most {
			t.Errorf("%d bytes were allocated, %d are allowed", allocated, most)
		}
	})
}
