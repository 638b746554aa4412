package udf

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"cqld/internal/memory"
	"cqld/schema"
	"cqld/udf/wasm"
)

// compiler compiles a function. It calls reserve with the bytes that it needs before it uses the memory. The error is
// *Refused, or the error of reserve.
type compiler func(f *schema.Function, reserve func(bytes int64) error) (program, error)

// cache contains compiled functions. Equal functions, such as one that is checked and then created, share a program,
// which is compiled once for any number of requests. No lock is held during a compilation. The cache evicts the
// least recently used program first, even if it is in use; users counts the requests that still need it.
type cache struct {
	compile   compiler
	instances *wasm.Pool
	// memory is the node's memory for functions; nil means that only most bounds the programs.
	memory *memory.Pool
	// most bounds the bytes of all cached programs. A single program may be larger.
	most int64
	now  func() time.Time
	// WebAssembly modules are compiled one at a time; sources are small and need not wait.
	turns turns // to compile WebAssembly modules

	mu sync.Mutex
	// programs maps functions to entries. Guarded by mu.
	programs map[*schema.Function]*compiled
	// bodies maps bodies to entries, for equal. Guarded by mu.
	bodies map[string][]*compiled
	// order contains the cached *compiled values, the least recently used one first. Guarded by mu.
	order list.List
	bytes int64 // guarded by mu
	// waiting counts the requests that wait for a program, by owner. Guarded by mu.
	waiting map[string]int
	stats   Compilations // guarded by mu
}

// compiled is a function that is compiled or being compiled. get adds it to programs and bodies; done is closed when
// the compiler returns; then it is in order until it is evicted. It is dropped once it is evicted and has no users.
type compiled struct {
	f *schema.Function
	// aliases contains the keys of the entry in programs, oldest first: equal functions of different schema versions.
	// Guarded by the cache's mu.
	aliases []*schema.Function
	// done is closed when p and err are set; both are immutable afterwards.
	done chan struct{}
	p    program
	err  error
	held memory.Held // memory held by p

	// users counts the requests that use the program or wait for it. While it is positive, the memory of the program
	// is not returned. Guarded by the cache's mu.
	users int
	// element is the entry in order; nil before the compilation and after the eviction. Guarded by the cache's mu.
	element *list.Element
}

// Compilations contains statistics of the compiler for metrics.
type Compilations struct {
	// Ended counts finished compilations, including failed ones.
	Ended int64
	// Refused counts functions that could not be compiled, and requests that were rejected because too many were
	// waiting.
	Refused int64
	Running int           // compilations in progress
	Time    time.Duration // total time of finished compilations
	Kept    int           // programs in the cache
	Bytes   int64         // bytes of programs in the cache
}

// errBusy is the error of a request that finds too many others waiting for the compiler. It protects the compiler
// against a role that creates functions in a loop.
var errBusy = &Refused{"Too many functions are being compiled; try again later"}

// newCache returns an empty cache. most is in bytes, and now measures the time of compilations. The cache must be the
// only user of instances. m may be nil.
func newCache(compile compiler, instances *wasm.Pool, m *memory.Pool, most int64, now func() time.Time) *cache {
	return &cache{compile: compile, instances: instances, memory: m, most: most, now: now,
		programs: map[*schema.Function]*compiled{},
		bodies:   map[string][]*compiled{}, waiting: map[string]int{}}
}

// get returns the program of a function for a request of an owner. It waits until it is compiled, or ctx ends. The
// caller must call release afterwards. An entry that is being compiled is shared, so the error of one compilation is
// the error of all its requests.
func (c *cache) get(ctx context.Context, owner string, f *schema.Function) (*compiled, error) {
	c.mu.Lock()
	e := c.programs[f]
	if e == nil {
		// Another version of the schema has other pointers for the same function.
		e = c.equal(f)
	}
	if e != nil {
		select {
		// The compilation has finished, so the request does not wait.
		case <-e.done:
			defer c.mu.Unlock()
			if e.err == nil {
				e.users++
				if e.element != nil {
					c.order.MoveToBack(e.element)
				}
			}
			return e, e.err
		default:
		}
	}
	if c.waiting[owner] >= waitingMax || len(c.waiting) >= ownersMax && c.waiting[owner] == 0 {
		c.stats.Refused++
		c.mu.Unlock()
		return nil, errBusy
	}
	// Count the request until stopWaiting, even if it compiles the function itself.
	c.waiting[owner]++
	// This request compiles the function. Add the entry to the maps first, so that other requests wait for it.
	if e == nil {
		e = &compiled{f: f, aliases: []*schema.Function{f}, done: make(chan struct{}), users: 1}
		c.programs[f] = e
		c.bodies[f.Body] = append(c.bodies[f.Body], e)
		c.mu.Unlock()
		defer c.stopWaiting(owner)
		return e, c.add(ctx, owner, e)
	}
	// Count the user before the wait, so that an eviction in the meantime does not drop the program.
	e.users++
	c.mu.Unlock()
	defer c.stopWaiting(owner)
	select {
	case <-e.done:
		return e, e.err
	case <-ctx.Done():
		// The program is not used. Its compilation continues for the others.
		c.release(e)
		return nil, ctx.Err()
	}
}

// release ends the use of a program. e must come from get without an error.
func (c *cache) release(e *compiled) {
	c.mu.Lock()
	e.users--
	unused := e.users == 0 && e.element == nil
	c.mu.Unlock()
	// The program was evicted while in use.
	if unused {
		c.drop(e)
	}
}

// drop returns the memory of a program that is neither in use nor in the cache. It is called once for each program,
// without mu.
func (c *cache) drop(e *compiled) {
	// Close idle instances, which would keep the program in memory.
	if p, ok := e.p.(*wasmProgram); ok {
		c.instances.Forget(p.p)
	}
	if c.memory != nil {
		c.memory.Return(e.held)
	}
}

// stopWaiting ends the wait of a request of owner. The map contains only roles with waiting requests.
func (c *cache) stopWaiting(owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting[owner]--; c.waiting[owner] == 0 {
		delete(c.waiting, owner)
	}
}

// equal returns the entry of an equal function and adds f to its aliases. The caller holds mu.
func (c *cache) equal(f *schema.Function) *compiled {
	for _, e := range c.bodies[f.Body] {
		if !equal(e.f, f) {
			continue
		}
		// The cache does not know when a schema version is no longer in use, so it drops the oldest alias.
		if e.aliases = append(e.aliases, f); len(e.aliases) > aliasesMax {
			delete(c.programs, e.aliases[0])
			e.aliases = slices.Delete(e.aliases, 0, 1)
		}
		c.programs[f] = e
		return e
	}
	return nil
}

// equal reports whether two functions have the same program. It also compares the keyspace and the name, because
// messages contain them.
func equal(a, b *schema.Function) bool {
	same := a.Language == b.Language && a.Keyspace == b.Keyspace && a.Name == b.Name &&
		a.CalledOnNull == b.CalledOnNull && a.Body == b.Body &&
		slices.Equal(a.ArgNames, b.ArgNames) && len(a.ArgTypes) == len(b.ArgTypes) && a.Returns.Equal(b.Returns)
	for i := 0; same && i < len(a.ArgTypes); i++ {
		same = a.ArgTypes[i].Equal(b.ArgTypes[i])
	}
	return same
}

// add compiles a function that is not in the cache. The caller has added e to the maps and counts as its user. add
// returns after the compilation.
func (c *cache) add(ctx context.Context, owner string, e *compiled) error {
	e.err = errors.New("internal error: the compiler failed") // unless it returns
	defer c.finish(e)
	if e.f.Language == Wasm {
		// All requests for this program get errBusy and may try again.
		if err := c.turns.wait(ctx, owner); err != nil {
			e.err = errBusy
			return err
		}
		defer c.turns.next()
	}
	// Count after the wait, so that the statistics contain only the time of the compiler.
	defer c.count()()
	// One account for the compilation and for the program that remains of it.
	var account memory.Account
	c.memory.Open(&account, memory.Origin{}, nil)
	defer account.Close()
	e.p, e.err = c.compile(e.f, func(bytes int64) error { return account.Grow(ctx, bytes) })
	if e.err == nil && c.memory != nil {
		e.held = keep(c.memory, &account, e.p.bytes())
	}
	return e.err
}

// count counts a compilation, until the returned function is called. Only the time of the compiler counts, not the wait
// for a turn.
func (c *cache) count() (end func()) {
	began := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Running++
	// The caller defers it, so it also runs after a panic of the compiler.
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stats.Running--
		c.stats.Ended++
		c.stats.Time += c.now().Sub(began)
	}
}

// finish publishes the result of the compiler. It removes functions that could not be compiled from the cache.
// Requests that wait for e continue when done is closed.
func (c *cache) finish(e *compiled) {
	c.mu.Lock()
	if e.err != nil {
		c.stats.Refused++
		c.forget(e)
	} else {
		e.element = c.order.PushBack(e)
		c.bytes += e.p.bytes()
	}
	// The newest program always stays.
	dropped := c.evict(func() bool { return c.order.Len() > 1 && (c.order.Len() > programsMax || c.bytes > c.most) })
	c.mu.Unlock()
	// Close done after p and err are set, because requests read them without the lock.
	close(e.done)
	for _, e := range dropped {
		c.drop(e)
	}
}

// evict removes the least recently used programs, as long as there are too many, and returns the ones that no request
// uses. The caller holds mu. It also removes programs in use, which requests continue to use; the last release returns
// their memory.
func (c *cache) evict(tooMany func() bool) (unused []*compiled) {
	for c.order.Len() > 0 && tooMany() {
		next, _ := c.order.Remove(c.order.Front()).(*compiled)
		next.element = nil
		c.bytes -= next.p.bytes()
		c.forget(next)
		// Otherwise the last release drops it.
		if next.users == 0 {
			unused = append(unused, next)
		}
	}
	return unused
}

// clear removes all programs. It is called when calls wait for memory. The next call of each function compiles it
// again.
func (c *cache) clear() {
	c.mu.Lock()
	// Programs in use stay in memory until their calls end, but no longer in the cache.
	dropped := c.evict(func() bool { return true })
	c.mu.Unlock()
	for _, e := range dropped {
		c.drop(e)
	}
}

// forget removes an entry from the maps. The caller holds mu. The program itself may still be in use.
func (c *cache) forget(e *compiled) {
	for _, f := range e.aliases {
		delete(c.programs, f)
	}
	// Functions with one body may differ in their types, so a body may have several entries.
	if c.bodies[e.f.Body] = slices.DeleteFunc(c.bodies[e.f.Body],
		func(o *compiled) bool { return o == e }); len(c.bodies[e.f.Body]) == 0 {
		delete(c.bodies, e.f.Body)
	}
}

// compilations returns a consistent snapshot of the statistics.
func (c *cache) compilations() Compilations {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Kept, s.Bytes = c.order.Len(), c.bytes
	return s
}
