package wasm

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"cqld/internal/memory"
	"cqld/internal/tier"
	"cqld/internal/wire"
	"cqld/types"
	"cqld/udf/value"
)

// stateful returns a module whose calls change all of its state: f is code, of the type (i32, i32) -> i32. It has a
// memory of the given pages with data, six mutable globals, a table of four functions, and a passive segment of data.
func stateful(pages int, start bool, f []byte) []byte {
	b := []byte("\x00asm\x01\x00\x00\x00")
	b = append(b, sized(typeSection, 2, 0x60, 2, 0x7f, 0x7f, 1, 0x7f, 0x60, 0, 0)...)
	b = append(b, sized(functionSection, 4, 0, 1, 0, 0)...)
	b = append(b, sized(tableSection, 1, 0x70, 0, 4)...)
	b = append(b, sized(memorySection, append([]byte{1, 0}, appendUnsigned(nil, uint64(pages))...)...)...)
	globals := code(6, 0x7f, 1, i32, 5, end, 0x7e, 1, 0x42, 6, end, 0x7d, 1, 0x43, 0, 0, 0x80, 0x3f, end, 0x7c, 1,
		0x44, 0, 0, 0, 0, 0, 0, 0, 0, end,
		0x7f, 0, i32, 9, end, 0x7f, 1, i32, 0, end)
	b = append(b, sized(globalSection, globals...)...)
	b = append(b, sized(exportSection, 1, 1, 'f', 0, 0)...)
	if start {
		b = append(b, sized(startSection, 1)...)
	}
	b = append(b, sized(elementSection, code(1, 0, i32, 0, end, 2, 2, 3)...)...)
	b = append(b, sized(dataCountSection, 2)...)
	functions := code(4)
	for _, body := range [][]byte{f, code(0x23, 5, i32, 1, add, 0x24, 5, i32, 60, i32, 3, 0x36, 0, 0),
		code(get, 0, i32, 1, add), code(get, 0, i32, 2, add)} {
		body = code(0, body, end)
		functions = append(appendUnsigned(functions, uint64(len(body))), body...)
	}
	b = append(b, sized(codeSection, functions...)...)
	return append(b, sized(dataSection, code(2, 0, i32, 16, end, 3, 'a', 'b', 'c', 1, 4, 'w', 'x', 'y', 'z')...)...)
}

// changes are instructions that change state and leave a number that depends on it.
func changes() map[string][]byte {
	return map[string][]byte{
		"memory":     code(i32, 0, i32, 0, fetch, 0, 0, get, 0, add, 0x36, 0, 0, i32, 0, fetch, 0, 0),
		"data":       code(i32, 16, i32, 16, fetch, 0, 0, i32, 1, add, 0x36, 0, 0, i32, 16, fetch, 0, 0),
		"far memory": code(get, 1, get, 1, fetch, 0, 0, i32, 1, add, 0x36, 0, 0, get, 1, fetch, 0, 0),
		"i32 global": code(0x23, 0, get, 0, add, 0x24, 0, 0x23, 0),
		"i64 global": code(0x23, 1, 0x42, 3, 0x7c, 0x24, 1, 0x23, 1, 0xa7),
		"f32 global": code(0x23, 2, 0x23, 2, 0x92, 0x24, 2, 0x23, 2, 0xbc),
		"f64 global": code(0x23, 3, 0x44, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0xa0, 0x24, 3, 0x23, 3, 0xaa),
		"growth":     code(i32, 1, 0x40, 0, 0x3f, 0, add),
		"no growth":  code(i32, 0x7f, 0x40, 0),
		"fill":       code(i32, 20, get, 0, i32, 40, 0xfc, 11, 0, i32, 50, fetch, 0, 0),
		"copy":       code(i32, 17, i32, 16, i32, 30, 0xfc, 10, 0, 0, i32, 40, fetch, 0, 0),
		"init":       code(i32, 18, i32, 0, i32, 4, 0xfc, 8, 1, 0, i32, 16, fetch, 0, 0),
		"data.drop":  code(0xfc, 9, 1, i32, 18, i32, 0, i32, 0, 0xfc, 8, 1, 0, i32, 0),
		"table.copy": code(get, 0, get, 0, i32, 0, 0x11, 0, 0, i32, 0, i32, 1, i32, 1, 0xfc, 14, 0, 0),
		"table":      code(get, 0, get, 0, i32, 1, 0x11, 0, 0),
		"start":      code(0x23, 5, i32, 60, fetch, 0, 0, add),
		"a long loop": code(loop, none, 0x23, 0, i32, 1, add, 0x24, 0, 0x23, 0, i32, 0xe4, 0, 0x48, brif, 0, end, 0x23,
			0),
		"recursion": code(get, 0, cond, 0x7f, get, 0, i32, 1, 0x6b, get, 1, 0x10, 0, els, 0x23, 0, end),
	}
}

// TestCallsShareNothing runs modules of random state changes in instances that are used again, and in new ones. The
// results must be the same.
func TestCallsShareNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	list, names := changes(), []string{}
	for name := range list {
		names = append(names, name)
	}
	pooled, mapped := 0, 0
	rounds := tier.Draws(240, 60)
	for round := range rounds {
		body := code(i32, 0)
		used := []string{}
		for range 1 + r.IntN(4) {
			name := names[r.IntN(len(names))]
			if round < len(names) {
				name = names[round]
			}
			used = append(used, name)
			body = code(body, list[name], add)
		}
		// Small memories are on the heap, and large ones are mappings whose touched pages are reset.
		pages := 1 + r.IntN(3)
		if round%2 == 1 {
			pages = 4 + r.IntN(12)
		}
		p, err := compiledBytes(stateful(pages, r.IntN(2) == 0, body))
		if err != nil {
			t.Fatalf("%v: %v", used, err)
		}
		for range 12 {
			// Also addresses beside the borders of pages, and at the end of the memory.
			at := r.IntN(pages<<16/4096)*4096 + []int{-3, 0, 20000 % 4096, 4092}[r.IntN(4)]
			args := [][]byte{wire.AppendUint32(nil, uint32(r.IntN(8))), wire.AppendUint32(nil, uint32(max(at, 0)))}
			got, err := p.Run(testCall(), args)
			fresh := &Program{runtime: p.runtime, module: p.module, f: p.f, limits: p.limits, pool: testPool(),
				uses:    p.uses,
				mutable: p.mutable, hasMemory: p.hasMemory, initialization: p.initialization}
			want, wantErr := fresh.Run(testCall(), args)
			fresh.pool.Clear()
			if !bytes.Equal(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Fatalf("%v: %x, %v; a new instance answers %x, %v", used, got, err, want, wantErr)
			}
		}
		if i := p.pool.take(p); i != nil {
			pooled++
			if i.memory.mapped() {
				mapped++
			}
			i.close()
		}
		p.pool.Clear()
	}
	if pooled < rounds/3 || runtime.GOOS == "linux" && mapped < rounds/8 {
		t.Errorf("instances of %d modules were used again, %d of them with a mapping", pooled, mapped)
	}
}

// TestArgumentsAreNotLeft passes an argument in memory to a module that does not write, and reads it in the following
// call.
func TestArgumentsAreNotLeft(t *testing.T) {
	text := types.Native(types.Text)
	// the 10 bytes at 1024, where alloc places the first argument
	whole := append([]byte{0x42}, appendSigned(nil, 10<<32|1024)...)
	p := memoryProgram(t, text, types.Native(types.Blob), memoryModule(16, whole...))
	if b, err := p.Run(testCall(), [][]byte{[]byte("secret"), nil}); err != nil || string(b[:6]) != "secret" {
		t.Fatalf("%q %v", b, err)
	}
	b, err := p.Run(testCall(), [][]byte{nil, nil})
	if err != nil || !bytes.Equal(b, make([]byte, 10)) {
		t.Errorf("the argument of another call is in memory: %q %v", b, err)
	}
	if n, _ := p.pool.Idle(); n != 1 {
		t.Errorf("%d idle instances", n)
	}
}

// TestIdleInstancesAreBounded keeps instances of many programs, of large memories and after deep recursion.
func TestIdleInstancesAreBounded(t *testing.T) {
	pool := testPool()
	i := types.Native(types.Int)
	for n := range 120 {
		p, err := compiledBytes(stateful(1+n%16, false, code(get, 0, i32, n, add)))
		if err != nil {
			t.Fatal(err)
		}
		p.pool = pool
		if _, err := p.Run(testCall(), [][]byte{i.AppendInt64(nil, 1), i.AppendInt64(nil, 2)}); err != nil {
			t.Fatal(err)
		}
		idle, counted := pool.Idle()
		if counted > idleBytesMax || idle < min(n, 10) {
			t.Fatalf("%d idle instances with %d bytes after %d", idle, counted, n)
		}
		if n%10 == 9 {
			pool.Forget(p)
			if now, _ := pool.Idle(); now != idle-1 {
				t.Fatalf("%d of %d idle instances after the program is dropped", now, idle)
			}
		}
	}
	p, err := compiledBytes(stateful(1, false, code(get, 0, cond, 0x7f, get, 0, i32, 1, 0x6b, get, 1, 0x10, 0, els,
		i32, 0, end)))
	if err != nil {
		t.Fatal(err)
	}
	p.limits.Steps = 10_000_000
	for _, x := range []struct {
		depth uint32
		idle  int
	}{{100, 1}, {5000, 1}, {200_000, 0}} {
		if _, err := p.Run(value.NewMeter(testLimits(), nil),
			[][]byte{wire.AppendUint32(nil, x.depth), make([]byte, 4)}); err != nil {
			t.Fatal(err)
		}
		if n, _ := p.pool.Idle(); n != x.idle {
			t.Errorf("%d idle instances after a recursion of %d", n, x.depth)
		}
	}
}

// node is a node's memory, which counts the reservations of a call.
type node struct{ left, held, most int64 }

func (n *node) Grow(bytes int64) error {
	if bytes > n.left-n.held {
		return &value.Unavailable{Err: memory.ErrExhausted}
	}
	n.held += bytes
	n.most = max(n.most, n.held)
	return nil
}

func (n *node) Shrink(bytes int64) { n.held -= bytes }

// TestCallsReserveMemory runs calls with deep recursion and with a growing memory: each reserves at least what the
// runtime has allocated for it, and ends if the node has less.
func TestCallsReserveMemory(t *testing.T) {
	recursion := code(get, 0, cond, 0x7f, get, 0, i32, 1, 0x6b, get, 1, 0x10, 0, els, i32, 0, end)
	growth := code(loop, none, i32, 1, 0x40, 0, i32, 0, 0x4a, brif, 0, end, i32,
		0) // until it fails, at the limit of a call
	for _, x := range []struct {
		name string
		f    []byte
		arg  uint32
	}{{"recursion", recursion, 100}, {"recursion", recursion, 20_000}, {"recursion", recursion, 300_000}, {"growth",
		growth, 0}} {
		run := func(left int64) (*node, int64, error) {
			p, err := compiledBytes(stateful(1, false, x.f))
			if err != nil {
				t.Fatal(err)
			}
			p.limits.Steps = 10_000_000
			n := &node{left: left}
			call := testCall()
			call.SetMemory(n)
			i, err := p.newInstance(call)
			if err != nil {
				return n, 0, err
			}
			defer i.close()
			i.begin(call)
			_, err = i.run([][]byte{wire.AppendUint32(nil, x.arg), make([]byte, 4)})
			return n, i.bytes(), err
		}
		n, has, err := run(1 << 40)
		if err != nil || n.held < has || n.most > 8*has+16<<20 {
			t.Errorf("%s of %d: %d bytes are reserved, %d at most, for an instance of %d; %v", x.name, x.arg, n.held,
				n.most,
				has, err)
		}
		for _, part := range []int64{2, 10, 1000} {
			less, has, err := run(n.most * (part - 1) / part)
			var unavailable *value.Unavailable
			if !errors.As(err, &unavailable) || less.most > less.left || has > less.most {
				t.Errorf("%s of %d with less memory: %d of %d are reserved, the instance has %d; %v", x.name, x.arg,
					less.most,
					less.left, has, err)
			}
		}
	}
}

// TestStacksOfTheRuntimeAreKnown fails if an upgrade of the runtime renames or removes the field that contains its
// stack, or if that no longer grows with the depth of calls: then calls reserve many times more than they use.
func TestStacksOfTheRuntimeAreKnown(t *testing.T) {
	recursion := code(get, 0, cond, 0x7f, get, 0, i32, 1, 0x6b, get, 1, 0x10, 0, els, i32, 0, end)
	p, err := compiledBytes(stateful(1, false, recursion))
	if err != nil {
		t.Fatal(err)
	}
	p.limits.Steps = 10_000_000
	call := testCall()
	i, err := p.newInstance(call)
	if err != nil {
		t.Fatal(err)
	}
	defer i.close()
	if len(i.stacks) != 1 {
		t.Fatalf("%T has no slice \"stack\": wazero has changed. stacksOf must find what the stack of a call takes,"+
			" or reserveFrames must do without", i.f)
	}
	before := i.stackBytes()
	i.begin(call)
	if _, err := i.run([][]byte{wire.AppendUint32(nil, 100_000), make([]byte, 4)}); err != nil {
		t.Fatal(err)
	}
	if after := i.stackBytes(); after < before+100_000*8 {
		t.Errorf("the stack had %d bytes, and has %d after 100,000 nested calls: wazero has changed", before, after)
	}
}

// TestConcurrentCalls calls one program from several goroutines.
func TestConcurrentCalls(t *testing.T) {
	p, err := compiledBytes(stateful(1, true, code(changes()["memory"], changes()["i32 global"], add)))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for range 200 {
				b, err := p.Run(testCall(), [][]byte{wire.AppendUint32(nil, uint32(g)), make([]byte, 4)})
				if want := wire.AppendUint32(nil, uint32(2*g+5)); err != nil || !bytes.Equal(b, want) {
					t.Errorf("%x %v; want %x", b, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestTimeIsChecked ends a call by its time, not later than after a quantum.
func TestTimeIsChecked(t *testing.T) {
	p, err := compiled(t, module(nil, loop, none, 0x0c, 0, end, i32, 0))
	if err != nil {
		t.Fatal(err)
	}
	checks := 0
	limits := testLimits()
	call := value.NewMeter(limits, elapsedAfter(&checks, 3, limits.Time))
	var exceeded *value.Exceeded
	if _, err := p.Run(call, [][]byte{make([]byte, 4), make([]byte, 4)}); !errors.As(err, &exceeded) ||
		exceeded.Reason != "it ran longer than 20000ms" || checks != 3 {
		t.Errorf("%v after %d checks", err, checks)
	}
}

// TestResetTouchesFewPages writes to three pages of a memory of 1 MiB: no other page may be touched by a call, or by
// the reset after it, and all are zero then.
func TestResetTouchesFewPages(t *testing.T) {
	pages := openPagemap()
	if pages == nil {
		t.Skip("touched pages are not known here")
	}
	p, err := compiledBytes(stateful(16, false, changes()["far memory"]))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []uint32{500_000, 800_000, 500_004, 1 << 19} {
		if _, err := p.Run(testCall(), [][]byte{make([]byte, 4), wire.AppendUint32(nil, at)}); err != nil {
			t.Fatal(err)
		}
	}
	i := p.pool.take(p)
	if i == nil || !i.memory.mapped() {
		t.Fatal("the instance is not kept, or its memory is not a mapping")
	}
	defer i.close()
	n := 0
	if !pages.touched(i.memory.mapping, i.memory.entries, func(from, to int) {
		n++
		if clean := from == 0 || bytes.Equal(i.memory.b[from:to], make([]byte, to-from)); !clean {
			t.Errorf("the page at %d is not zero after a reset", from)
		}
	}) {
		t.Fatal("touched pages were known before")
	}
	if n != 4 { // and the page with the data of the module
		t.Errorf("%d pages are touched, want 4", n)
	}
}

// TestMappingsAreReturned creates instances with mappings that end in each way: by a fault of the start function, by a
// fault of the call, by growth, and in the pool. None of them stays mapped.
func TestMappingsAreReturned(t *testing.T) {
	fault := code(i32, 0, 0x00)
	growth := code(get, 1, get, 1, 0x36, 0, 0, i32, 1, 0x40, 0)
	for name, f := range map[string][]byte{"fault": fault, "growth": growth, "none": changes()["far memory"]} {
		p, err := compiledBytes(stateful(8, false, f))
		if err != nil {
			t.Fatal(name, err)
		}
		if p.pool.pages == nil {
			t.Skip("touched pages are not known here")
		}
		i, err := p.newInstance(testCall())
		if err != nil {
			t.Fatal(name, err)
		}
		if !i.memory.mapped() {
			t.Errorf("%s: the memory is not a mapping", name)
		}
		i.begin(testCall())
		_, err = i.run([][]byte{make([]byte, 4), wire.AppendUint32(nil, 70_000)})
		if kept := err == nil && i.reset(); kept != (name == "none") || (err != nil) != (name == "fault") {
			t.Errorf("%s: kept %v, %v", name, kept, err)
		}
		i.close()
		if i.memory.mapping != nil || i.memory.b != nil {
			t.Errorf("%s: the mapping remains", name)
		}
	}
}

// BenchmarkCallLarge calls a function that writes to a memory of 1 MiB, as compilers give to modules for their stack.
func BenchmarkCallLarge(b *testing.B) {
	p, err := compiledBytes(stateful(16, false, code(changes()["far memory"])))
	if err != nil {
		b.Fatal(err)
	}
	args := [][]byte{{0, 0, 0, 1}, wire.AppendUint32(nil, 1<<20-64)}
	b.ReportAllocs()
	for range b.N {
		if _, err := p.Run(testCall(), args); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	p, err := compiledBytes(stateful(1, false, code(get, 0, get, 1, add)))
	if err != nil {
		b.Fatal(err)
	}
	args := [][]byte{{0, 0, 0, 1}, {0, 0, 0, 2}}
	b.ReportAllocs()
	for range b.N {
		if _, err := p.Run(testCall(), args); err != nil {
			b.Fatal(err)
		}
	}
}

// elapsedAfter returns a clock that exceeds the limit at a check.
func elapsedAfter(checks *int, last int, limit time.Duration) func() time.Duration {
	return func() time.Duration {
		if *checks++; *checks >= last {
			return limit + 1
		}
		return 0
	}
}
