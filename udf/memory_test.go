package udf

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/internal/memory"
	"cqld/schema"
	"cqld/types"
	"cqld/udf/value"
)

// greedy returns functions that use as much memory as a call may, in each language.
func greedy(n int) map[string]*schema.Function {
	in := types.Native(types.Int)
	function := func(language, body string) *schema.Function {
		return &schema.Function{Keyspace: "k", Name: "f", ArgNames: []string{"a"}, ArgTypes: []*types.Type{in},
			Returns:  in,
			Language: language, Body: body}
	}
	all := map[string]*schema.Function{
		"list":    function(Lua, fmt.Sprintf("local t = {} for i = 1, %d do t[i] = i + 1000 end return #t", n)),
		"entries": function(Lua, fmt.Sprintf("local t = {} for i = 1, %d do t[i + 0.5] = i end return 1", n/3)),
		"strings": function(Lua, fmt.Sprintf("local t = {} for i = 1, %d do t[i] = string.rep('x', 64) .. i end "+
			"return 1",
			n/3)),
		"text": function(Lua, fmt.Sprintf("local s = string.rep('y', %d) local t = {s .. 1, s .. 2, s .. 3} return #t",
			10*n)),
		"closures": function(Lua, fmt.Sprintf(
			"local t = {} for i = 1, %d do local x, y = i, i + 1 t[i] = function() return x + y end end return 1",
			n/5)),
		"java list": function(Java, fmt.Sprintf(
			"java.util.List<Integer> l = new ArrayList<>(); for (int i = 0; i < %d; i++) l.add(i + 1000); return "+
				"l.size();", n)),
		"java map": function(Java, fmt.Sprintf(
			"java.util.Map<Integer, String> m = new HashMap<>();"+
				" for (int i = 0; i < %d; i++) m.put(i + 9, \"v\" + i); return m.size();", n/4)),
	}
	// f grows its memory to n/4000 pages and calls itself a times.
	all["wasm"] = function(Wasm,
		base64.StdEncoding.EncodeToString([]byte("\x00asm\x01\x00\x00\x00"+
			"\x01\x06\x01\x60\x01\x7f\x01\x7f\x03\x02\x01\x00"+
			"\x05\x03\x01\x00\x01\x07\x05\x01\x01f\x00\x00\x0a\x19"+
			"\x01\x17\x00\x20\x00\x45\x04\x7f\x41"+string([]byte{byte(n / 4000)})+
			"\x40\x00\x05\x20\x00\x41\x01\x6b\x10\x00\x41\x01\x6a\x0b\x0b")))
	return all
}

// live returns the live bytes of the last garbage collection.
func live() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// TestCallsStayWithinTheirPart runs many concurrent calls that use as much memory as they may. Together they stay below
// the limit, by the counters and by the collector, and each ends with a result or a clear error. Afterwards only
// programs and idle instances hold memory.
func TestCallsStayWithinTheirPart(t *testing.T) {
	const part, callers = 16 << 20, 16
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	r := New(Options{Memory: part, Limits: value.Limits{Time: time.Minute}})
	runtime.GC()
	before := live()
	stop, most := make(chan struct{}), atomic.Int64{}
	var sampler, wg sync.WaitGroup
	sampler.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				most.Store(max(most.Load(), live()))
			}
		}
	})
	functions := greedy(40_000)
	arg := [][]byte{{0, 0, 0x27, 0x10}} // 10,000
	var succeeded atomic.Int64
	for i := range callers {
		wg.Go(func() {
			for name, f := range functions {
				_, _, err := r.Call(f, arg)
				// A call waits for memory for a few seconds. On a slow machine, others may need it for longer.
				for attempts := 1; errors.Is(err, memory.ErrExhausted) && attempts < 20; attempts++ {
					_, _, err = r.Call(f, arg)
				}
				var failure *Failure
				switch {
				case err == nil:
					succeeded.Add(1)
				case errors.As(err, &failure) && strings.Contains(failure.Msg, "bytes of memory"), errors.Is(err,
					memory.ErrExhausted):
				default:
					t.Errorf("%s of caller %d: %v", name, i, err)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	sampler.Wait()
	s := r.Stats()
	if s.Memory.Peak > part || s.Memory.Waits == 0 {
		t.Errorf("%d bytes were reserved at most, of %d, and calls waited %d times", s.Memory.Peak, part,
			s.Memory.Waits)
	}
	if grown := most.Load() - before; grown > part*5/4 {
		t.Errorf("concurrent calls had %d bytes, of %d", grown, part)
	}
	if held := s.Compilations.Bytes + s.IdleBytes; s.Memory.Used != held || held > part/keptDivisor*2 {
		t.Errorf("%d bytes are in use afterwards, %d of them by programs and %d by idle instances", s.Memory.Used,
			s.Compilations.Bytes, s.IdleBytes)
	}
	if n := succeeded.Load(); n < callers*int64(len(functions))*9/10 {
		t.Errorf("%d of %d calls succeeded", n, callers*len(functions))
	}
	t.Logf("%d of %d bytes reserved, %d live, %d waits", s.Memory.Peak, part, most.Load()-before, s.Memory.Waits)
	r.programs.clear()
	r.instances.Clear()
	if s := r.Stats(); s.Memory.Used != 0 || s.Idle != 0 || s.Compilations.Kept != 0 {
		t.Errorf("%+v after all are dropped", s)
	}
}

// measuring collects garbage whenever a call reserves memory, and compares the live heap with the reservation.
type measuring struct{ before, reserved, missing int64 }

func (m *measuring) Grow(n int64) error {
	runtime.GC()
	m.missing = max(m.missing, live()-m.before-m.reserved)
	m.reserved += n
	return nil
}

func (m *measuring) Shrink(n int64) { m.reserved -= n }

// TestReservationsCoverCalls compares the reservations of calls with the live heap.
func TestReservationsCoverCalls(t *testing.T) {
	r := New(Options{})
	for name, f := range greedy(200_000) {
		p, err := r.compile(f, func(int64) error { return nil })
		if err != nil {
			t.Fatal(name, err)
		}
		runtime.GC()
		m := &measuring{before: live()}
		meter := value.NewMeter(r.o.Limits, nil)
		meter.SetMemory(m)
		if _, err := p.call(meter, [][]byte{{0, 0, 0x27, 0x10}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if m.missing > 256<<10 || m.reserved < 3<<20 {
			t.Errorf("%s: %d bytes are reserved, and up to %d more are in use", name, m.reserved, m.missing)
		}
	}
}

// TestCompilationsReserve compiles modules with less memory than the compiler may need, and with enough.
func TestCompilationsReserve(t *testing.T) {
	f := greedy(100_000)["wasm"]
	small := New(Options{Memory: 512 << 10})
	var refused *Refused
	if err := small.Check(context.Background(), "r", f); !errors.As(err, &refused) || !strings.Contains(refused.Msg,
		"bytes of memory are needed") {
		t.Errorf("%v", err)
	}
	large := New(Options{Memory: 8 << 20})
	if err := large.Check(context.Background(), "r", f); err != nil {
		t.Error(err)
	}
	s := large.Stats()
	if s.Memory.Peak < 1<<20 || s.Memory.Used != s.Compilations.Bytes || s.Compilations.Ended != 1 ||
		s.Compilations.Kept != 1 {
		t.Errorf("%+v", s)
	}
}

// BenchmarkCall calls short functions of each language.
func BenchmarkCall(b *testing.B) {
	in := types.Native(types.Int)
	wasm := "\x00asm\x01\x00\x00\x00\x01\x06\x01\x60\x01\x7f\x01\x7f\x03\x02\x01\x00" +
		"\x07\x05\x01\x01f\x00\x00\x0a\x09\x01\x07\x00\x20\x00\x41\x01\x6a\x0b"
	for language, body := range map[string]string{Lua: "return a + 1", Java: "return a + 1;",
		Wasm: base64.StdEncoding.EncodeToString([]byte(wasm))} {
		b.Run(language, func(b *testing.B) {
			r := New(Options{Memory: 32 << 20, Now: time.Now})
			f := &schema.Function{Keyspace: "k", Name: "f", ArgNames: []string{"a"}, ArgTypes: []*types.Type{in},
				Returns:  in,
				Language: language, Body: body}
			b.ReportAllocs()
			for range b.N {
				if _, _, err := r.Call(f, [][]byte{{0, 0, 0, 1}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
