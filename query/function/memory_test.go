package function

import (
	"errors"
	"math/big"
	"runtime"
	"strings"
	"testing"

	"cqld/query/invalid"
	"cqld/types"
)

// TestOperatorsBoundTheirResults adds two texts of 8 MiB, and one byte.
func TestOperatorsBoundTheirResults(t *testing.T) {
	l := New()
	half := make([]byte, resultBytesMax/2)
	for _, k := range []types.Kind{types.Ascii, types.Text} {
		f, err := l.Resolve(Call{Name: opAdd, Args: typedArgs(native(k), native(k))})
		if err != nil {
			t.Fatal(err)
		}
		if b, err := f.Eval(testEnv{}, [][]byte{half, half}); err != nil || len(b) != resultBytesMax {
			t.Errorf("%s: %d bytes, %v", f, len(b), err)
		}
		var refused *invalid.Error
		if _, err := f.Eval(testEnv{}, [][]byte{half, make([]byte, len(half)+1)}); !errors.As(err, &refused) {
			t.Errorf("%s: error %v, want INVALID", f, err)
		}
	}
}

// TestOperatorsBoundTheirTime: the product of the lengths of two integers decides whether an operator is refused, so
// that a statement with thousands of operators ends. Short operands of long integers are accepted.
func TestOperatorsBoundTheirTime(t *testing.T) {
	bytesOf := func(n int) *big.Int { return new(big.Int).Lsh(big.NewInt(1), uint(8*n-1)) }
	for _, x := range []struct {
		n, m    int
		refusal string // of a product
		product bool   // the refusal is of a product only
	}{
		{operandBytesMax, operandBytesMax, "", false},
		{operandBytesMax + 1, operandBytesMax, "the operands are too long", false},
		{1, 200 << 10, "", false},
		{resultBytesMax - 8, 8, "", false},
		{resultBytesMax, 8, "the result has 16777224 bytes, more than 16777216", true},
		{resultBytesMax, 1 << 10, "the operands are too long", false},
	} {
		for _, op := range []string{opMultiply, opDivide, opModulo} {
			for _, swapped := range []bool{false, true} {
				a, b := bytesOf(x.n), bytesOf(x.m)
				if swapped {
					a, b = b, a
				}
				want := x.refusal
				if x.product && op != opMultiply {
					want = ""
				}
				got := ""
				if _, err := computeBig(op, a, b); err != nil {
					got = err.Error()
				}
				if got != want {
					t.Errorf("%s of %d and %d bytes: %q, want %q", op, x.n, x.m, got, want)
				}
			}
		}
	}
}

// boundedEnv is an Env with the memory of a request.
type boundedEnv struct {
	testEnv
	most, held, peak int // bytes
}

// errNoMemory is the error of a boundedEnv.
var errNoMemory = errors.New("no memory")

// Grow implements reserver.
func (e *boundedEnv) Grow(n int) error {
	if e.held+n > e.most {
		return errNoMemory
	}
	e.held += n
	e.peak = max(e.peak, e.held)
	return nil
}

// Shrink implements reserver.
func (e *boundedEnv) Shrink(n int) { e.held -= n }

// TestJSONIsReservedBeforeItIsParsed checks that from_json reserves what decoding takes, returns it, and fails before
// it has parsed anything if there is no memory.
func TestJSONIsReservedBeforeItIsParsed(t *testing.T) {
	list := types.NewList(native(types.Int), true)
	f, err := New().Resolve(Call{Name: "from_json", Args: typedArgs(native(types.Text)), Receiver: list})
	if err != nil {
		t.Fatal(err)
	}
	text := ones(50_000)
	env := &boundedEnv{most: 1 << 30}
	if _, err := f.Eval(env, [][]byte{text}); err != nil || env.peak != JSONBytes(text) || env.held != 0 {
		t.Errorf("error %v, peak %d of %d, held %d", err, env.peak, JSONBytes(text), env.held)
	}
	env = &boundedEnv{most: 1 << 20}
	allocated := testing.AllocsPerRun(1, func() { _, err = f.Eval(env, [][]byte{text}) })
	if !errors.Is(err, errNoMemory) || allocated > 10 {
		t.Errorf("error %v after %v allocations", err, allocated)
	}
}

// TestJSONBytesBoundTheHeap compares what decoding keeps on the heap with the reservation, for text with many small
// elements and of one long one.
func TestJSONBytesBoundTheHeap(t *testing.T) {
	numbers, text := types.NewList(native(types.Int), true), native(types.Text)
	for name, x := range map[string]struct {
		t    *types.Type
		text []byte
	}{
		"numbers": {numbers, ones(100_000)},
		"maps": {types.NewMap(native(types.Int), native(types.Int), true),
			[]byte("{" + strings.Repeat(`"1":1,`, 50_000) + `"1":1}`)},
		"text":    {text, []byte(`"` + strings.Repeat("x", 1<<20) + `"`)},
		"escapes": {text, []byte(`"` + strings.Repeat(`\n`, 1<<19) + `"`)},
	} {
		t.Run(name, func(t *testing.T) {
			before := heap()
			v, err := types.ParseJSON(x.text)
			if err != nil {
				t.Fatal(err)
			}
			parsed := heap() - before
			b, err := x.t.FromJSONValue(&v, nil)
			if err != nil {
				t.Fatal(err)
			}
			if kept := heap() - before; kept > JSONBytes(x.text) || 20*kept < JSONBytes(x.text) {
				t.Errorf("%d bytes on the heap, %d after parsing, %d reserved for %d", kept, parsed, JSONBytes(x.text),
					len(x.text))
			}
			runtime.KeepAlive(b)
			runtime.KeepAlive(&v)
		})
	}
}

// ones returns a JSON array of n elements.
func ones(n int) []byte { return []byte("[" + strings.Repeat("1,", n-1) + "1]") }

// heap returns the size of the live heap in bytes.
func heap() int {
	// The first collection keeps what pools contain, and the second frees it.
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
