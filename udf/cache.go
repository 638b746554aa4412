package udf

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"sync"

	"cqld/schema"
	"cqld/udf/wasm"
)

// cache contains compiled functions. Functions that are equal, as one that is checked and then created, share a program, which is compiled
// once however many requests need it. No lock is held while a function is compiled.
type cache struct {
	compile   func(f *schema.Function) (program, error)
	instances *wasm.Pool
	// modules has an element while a WebAssembly module is compiled: one at a time, so that others keep their processors.
	modules chan struct{}

	mu       sync.Mutex
	programs map[*schema.Function]*compiled // guarded by mu
	bodies   map[string][]*compiled         // by the body; guarded by mu
	order    list.List                      // of *compiled, oldest first; guarded by mu
	bytes    int64                          // guarded by mu
	waiting  int                            // requests that wait for a program; guarded by mu
}

// compiled is a function that is compiled, or will be.
type compiled struct {
	f       *schema.Function
	aliases []*schema.Function // the keys in programs; guarded by the cache's mu
	done    chan struct{}      // closed when p and err are set
	p       program
	err     error
}

// errBusy is the error of a request that finds too many others waiting for the compiler.
var errBusy = &Refused{"Too many functions are being compiled; try again later"}

func newCache(compile func(f *schema.Function) (program, error), instances *wasm.Pool) *cache {
	return &cache{compile: compile, instances: instances, modules: make(chan struct{}, 1), programs: map[*schema.Function]*compiled{},
		bodies: map[string][]*compiled{}}
}

// get returns the program of a function. It waits until it is compiled, or ctx ends.
func (c *cache) get(ctx context.Context, f *schema.Function) (program, error) {
	c.mu.Lock()
	e := c.programs[f]
	if e == nil {
		e = c.equal(f)
	}
	switch {
	case e == nil:
		return c.add(ctx, f) // unlocks
	case c.waiting >= waitingMax:
		c.mu.Unlock()
		return nil, errBusy
	}
	select {
	case <-e.done:
		c.mu.Unlock()
		return e.p, e.err
	default:
	}
	c.waiting++
	c.mu.Unlock()
	defer c.stopWaiting()
	select {
	case <-e.done:
		return e.p, e.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *cache) stopWaiting() {
	c.mu.Lock()
	c.waiting--
	c.mu.Unlock()
}

// equal returns the entry of an equal function, and remembers f for it. It is called with mu.
func (c *cache) equal(f *schema.Function) *compiled {
	for _, e := range c.bodies[f.Body] {
		if !equal(e.f, f) {
			continue
		}
		if e.aliases = append(e.aliases, f); len(e.aliases) > aliasesMax {
			delete(c.programs, e.aliases[0])
			e.aliases = slices.Delete(e.aliases, 0, 1)
		}
		c.programs[f] = e
		return e
	}
	return nil
}

// equal reports whether two functions have the same program.
func equal(a, b *schema.Function) bool {
	same := a.Language == b.Language && a.Keyspace == b.Keyspace && a.Name == b.Name && a.CalledOnNull == b.CalledOnNull && a.Body == b.Body &&
		slices.Equal(a.ArgNames, b.ArgNames) && len(a.ArgTypes) == len(b.ArgTypes) && a.Returns.Equal(b.Returns)
	for i := 0; same && i < len(a.ArgTypes); i++ {
		same = a.ArgTypes[i].Equal(b.ArgTypes[i])
	}
	return same
}

// add compiles a function that is not known. It is called with mu, which it unlocks.
func (c *cache) add(ctx context.Context, f *schema.Function) (program, error) {
	if c.waiting >= waitingMax {
		c.mu.Unlock()
		return nil, errBusy
	}
	e := &compiled{f: f, aliases: []*schema.Function{f}, done: make(chan struct{})}
	c.programs[f] = e
	c.bodies[f.Body] = append(c.bodies[f.Body], e)
	c.waiting++
	c.mu.Unlock()
	e.err = errors.New("internal error: the compiler failed") // unless it returns
	defer c.finish(e)
	if f.Language == Wasm {
		select {
		case c.modules <- struct{}{}:
			defer func() { <-c.modules }()
		case <-ctx.Done():
			e.err = errBusy
			return nil, ctx.Err()
		}
	}
	e.p, e.err = c.compile(f)
	return e.p, e.err
}

// finish publishes the result of the compiler. Functions that cannot be compiled are forgotten.
func (c *cache) finish(e *compiled) {
	var dropped []*compiled
	c.mu.Lock()
	c.waiting--
	if e.err != nil {
		c.forget(e)
	} else {
		c.order.PushBack(e)
		c.bytes += e.p.bytes()
		for c.order.Len() > 1 && (c.order.Len() > programsMax || c.bytes > programBytesMax) {
			oldest, _ := c.order.Remove(c.order.Front()).(*compiled)
			c.bytes -= oldest.p.bytes()
			c.forget(oldest)
			dropped = append(dropped, oldest)
		}
	}
	c.mu.Unlock()
	close(e.done)
	for _, e := range dropped {
		if p, ok := e.p.(*wasmProgram); ok {
			c.instances.Forget(p.p)
		}
	}
}

// forget removes an entry from the maps. It is called with mu.
func (c *cache) forget(e *compiled) {
	for _, f := range e.aliases {
		delete(c.programs, f)
	}
	if c.bodies[e.f.Body] = slices.DeleteFunc(c.bodies[e.f.Body], func(o *compiled) bool { return o == e }); len(c.bodies[e.f.Body]) == 0 {
		delete(c.bodies, e.f.Body)
	}
}
