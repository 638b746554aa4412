package udf

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/schema"
	"cqld/types"
	"cqld/udf/value"
	"cqld/udf/wasm"
)

// fake is a program of a size.
type fake int64

func (p fake) call(*value.Meter, [][]byte) ([]byte, error) { return nil, nil }
func (p fake) bytes() int64                                { return int64(p) }

func function(body string) *schema.Function {
	i := types.Native(types.Int)
	return &schema.Function{Keyspace: "k", Name: "f", ArgNames: []string{"a"}, ArgTypes: []*types.Type{i}, Returns: i,
		Language: Wasm, Body: body}
}

// testCache returns a cache without a bound for all functions.
func testCache(compile func(f *schema.Function) (program, error)) *cache {
	return newCache(func(f *schema.Function, _ func(int64) error) (program, error) { return compile(f) },
		wasm.NewPool(nil, idleBytesMax), nil,
		programBytesMax, time.Now)
}

// TestFunctionsAreCompiledOnce requests equal functions, concurrently and in sequence.
func TestFunctionsAreCompiledOnce(t *testing.T) {
	var compilations atomic.Int64
	begin := make(chan struct{})
	c := testCache(func(*schema.Function) (program, error) {
		compilations.Add(1)
		<-begin
		return fake(1), nil
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := c.get(context.Background(), "r", function("a")); err != nil {
				t.Error(err)
			}
		})
	}
	close(begin)
	wg.Wait()
	for range 20 {
		_, _ = c.get(context.Background(), "r", function("a"))
	}
	if n := compilations.Load(); n != 1 || len(c.programs) > aliasesMax {
		t.Errorf("%d compilations, %d aliases", n, len(c.programs))
	}
	other := function("a")
	other.Returns = types.Native(types.Text)
	if _, err := c.get(context.Background(), "r", other); err != nil || compilations.Load() != 2 {
		t.Errorf("another type: %d compilations, %v", compilations.Load(), err)
	}
}

// TestCompilationDoesNotBlock waits for a compiler that does not end: other languages are compiled, known functions are
// found, and a request that is canceled ends, whether it waits for the same module or for another.
func TestCompilationDoesNotBlock(t *testing.T) {
	release, started := make(chan struct{}), make(chan struct{}, 2)
	c := testCache(func(f *schema.Function) (program, error) {
		if f.Body == "slow" {
			started <- struct{}{}
			<-release
		}
		return fake(1), nil
	})
	background := context.Background()
	if _, err := c.get(background, "r", function("known")); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := c.get(background, "r", function("slow"))
		ended <- err
	}()
	<-started
	lua := function("lua")
	lua.Language = Lua
	for _, f := range []*schema.Function{lua, function("known")} {
		if _, err := c.get(background, "r", f); err != nil {
			t.Error(err)
		}
	}
	canceled, cancel := context.WithCancel(background)
	cancel()
	for _, body := range []string{"slow", "other"} {
		if _, err := c.get(canceled, "r", function(body)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", body, err)
		}
	}
	close(release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := c.get(background, "r", function("other")); err != nil || len(c.waiting) != 0 {
		t.Errorf("%v, %v wait", err, c.waiting)
	}
}

// TestProgramsAreBounded compiles more functions than are kept, and functions that cannot be compiled.
func TestProgramsAreBounded(t *testing.T) {
	size := int64(1)
	c := testCache(func(f *schema.Function) (program, error) {
		if f.Body == "invalid" {
			return nil, &Refused{"invalid"}
		}
		return fake(size), nil
	})
	for _, x := range []struct {
		size int64
		kept int
	}{{1, programsMax}, {programBytesMax / 4, 4}, {2 * programBytesMax, 1}} {
		size = x.size
		for i := range programsMax + 10 {
			if _, err := c.get(context.Background(), "r", function(fmt.Sprint(x.size, i))); err != nil {
				t.Fatal(err)
			}
		}
		_, err := c.get(context.Background(), "r", function("invalid"))
		if err == nil || c.order.Len() != x.kept || len(c.programs) != x.kept || len(c.bodies) != x.kept ||
			c.bytes != x.size*int64(x.kept) {
			t.Errorf("size %d: %d kept, %d, %d, %d bytes, %v", x.size, c.order.Len(), len(c.programs), len(c.bodies),
				c.bytes, err)
		}
	}
}

// TestUsedProgramsStay uses one program again before each of many others is added.
func TestUsedProgramsStay(t *testing.T) {
	compilations := map[string]int{}
	c := testCache(func(f *schema.Function) (program, error) {
		compilations[f.Body]++
		return fake(1), nil
	})
	for i := range 2 * programsMax {
		for _, body := range []string{"used", fmt.Sprint(i)} {
			if _, err := c.get(context.Background(), "r", function(body)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := compilations["used"]; n != 1 {
		t.Errorf("the used program was compiled %d times", n)
	}
	// The first of the others was evicted.
	if _, err := c.get(context.Background(), "r", function("0")); err != nil || compilations["0"] != 2 {
		t.Errorf("an unused program was compiled %d times, %v", compilations["0"], err)
	}
}
