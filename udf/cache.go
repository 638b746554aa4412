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

// compiler compiles a function. It calls reserve with the memory that it needs, before it uses it. The error is
// *Refused, or the error of reserve.
type compiler func(f *schema.Function, reserve func(bytes int64) error) (program, error)

// cache contains compiled functions. Functions that are equal, as one that is checked and then created, share a
// program, which is compiled once however many requests need it. No lock is held while a function is compiled. The
// program that was compiled first leaves the cache first, whether it is used or not; users counts the requests that
// still need it.
type cache struct {
	compile   compiler
	instances *wasm.Pool
	// The memory of the node for functions; nil means that only most bounds the programs.
	memory *memory.Pool
	// The bytes of all programs that are kept, at most. A single program may be larger.
	most int64
	now  func() time.Time
	// WebAssembly modules are compiled one at a time; sources are small and need no turn.
	turns turns // to compile WebAssembly modules

	mu sync.Mutex
	// The entries by the functions for which they were requested. Guarded by mu.
	programs map[*schema.Function]*compiled
	// All entries by their body, where equal searches. Guarded by mu.
	bodies map[string][]*compiled
	// The *compiled values that are kept, oldest first. Guarded by mu.
	order list.List
	bytes int64 // guarded by mu
	// The number of requests that wait for a program, by owner. Guarded by mu.
	waiting map[string]int
	stats   Compilations // guarded by mu
}

// compiled is a function that is compiled, or will be. Its life: in programs and bodies from get on; done closes when
// the compiler returns; kept in order until evicted; dropped when evicted and without users.
type compiled struct {
	f *schema.Function
	// The keys of the entry in programs, oldest first. Guarded by the cache's mu. Each is a function of one version of
	// the schema.
	aliases []*schema.Function
	// Closed when p and err are set. Both are immutable then.
	done chan struct{}
	p    program
	err  error
	held memory.Held // by p

	// The requests that use the program or wait for it. Guarded by the cache's mu. While it is positive, the memory of
	// the program is not returned.
	users int
	// In order; nil while it is not kept: before it is compiled, and after it was evicted. Guarded by the cache's mu.
	element *list.Element
}

// Compilations are figures of the compiler. They are shown in metrics.
type Compilations struct {
	// Compilations that have ended, with those that refused a function.
	Ended int64
	// Functions that could not be compiled, and requests that found too many others waiting.
	Refused int64
	Running int           // compilations now
	Time    time.Duration // of all that have ended
	Kept    int           // programs that are kept
	Bytes   int64         // of these
}

// errBusy is the error of a request that finds too many others waiting for the compiler. It protects the compiler from
// a role that creates functions in a loop.
var errBusy = &Refused{"Too many functions are being compiled; try again later"}

// newCache returns an empty cache. most is in bytes, and now measures the time of compilations. instances may be shared
// with nothing else. m may be nil.
func newCache(compile compiler, instances *wasm.Pool, m *memory.Pool, most int64, now func() time.Time) *cache {
	return &cache{compile: compile, instances: instances, memory: m, most: most, now: now,
		programs: map[*schema.Function]*compiled{},
		bodies:   map[string][]*compiled{}, waiting: map[string]int{}}
}

// get returns the program of a function for a request of an owner. It waits until it is compiled, or ctx ends. The
// caller calls release after its use. An entry that is being compiled is shared, so the error of one compilation is the
// error of all its requests.
func (c *cache) get(ctx context.Context, owner string, f *schema.Function) (*compiled, error) {
	c.mu.Lock()
	e := c.programs[f]
	if e == nil {
		// Another version of the schema has other pointers for the same function.
		e = c.equal(f)
	}
	if e != nil {
		select {
		// Compiled, or refused: no wait, and so no place among the waiting requests.
		case <-e.done:
			defer c.mu.Unlock()
			if e.err == nil {
				e.users++
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
	// Until stopWaiting, also for the request that compiles.
	c.waiting[owner]++
	// This request compiles it. The entry is in the maps before, so that others wait for it.
	if e == nil {
		e = &compiled{f: f, aliases: []*schema.Function{f}, done: make(chan struct{}), users: 1}
		c.programs[f] = e
		c.bodies[f.Body] = append(c.bodies[f.Body], e)
		c.mu.Unlock()
		defer c.stopWaiting(owner)
		return e, c.add(ctx, owner, e)
	}
	// Counted before the wait, so that the program is not dropped when it is evicted meanwhile.
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
	// It was evicted while it was used.
	if unused {
		c.drop(e)
	}
}

// drop returns the memory of a program that is neither used nor kept. It is called once for each program, without mu.
func (c *cache) drop(e *compiled) {
	// Idle instances would keep the program in memory.
	if p, ok := e.p.(*wasmProgram); ok {
		c.instances.Forget(p.p)
	}
	if c.memory != nil {
		c.memory.Return(e.held)
	}
}

// stopWaiting ends the wait of a request of owner. Roles without waiting requests take no place in the map.
func (c *cache) stopWaiting(owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting[owner]--; c.waiting[owner] == 0 {
		delete(c.waiting, owner)
	}
}

// equal returns the entry of an equal function, and remembers f for it. It is called with mu. Functions are compared by
// what determines their program.
func (c *cache) equal(f *schema.Function) *compiled {
	for _, e := range c.bodies[f.Body] {
		if !equal(e.f, f) {
			continue
		}
		// The cache does not learn when a version of the schema is no longer used, so it drops the oldest alias.
		if e.aliases = append(e.aliases, f); len(e.aliases) > aliasesMax {
			delete(c.programs, e.aliases[0])
			e.aliases = slices.Delete(e.aliases, 0, 1)
		}
		c.programs[f] = e
		return e
	}
	return nil
}

// equal reports whether two functions have the same program. The keyspace and the name count, because messages contain
// them.
func equal(a, b *schema.Function) bool {
	same := a.Language == b.Language && a.Keyspace == b.Keyspace && a.Name == b.Name &&
		a.CalledOnNull == b.CalledOnNull && a.Body == b.Body &&
		slices.Equal(a.ArgNames, b.ArgNames) && len(a.ArgTypes) == len(b.ArgTypes) && a.Returns.Equal(b.Returns)
	for i := 0; same && i < len(a.ArgTypes); i++ {
		same = a.ArgTypes[i].Equal(b.ArgTypes[i])
	}
	return same
}

// add compiles a function that is not known. Its caller has put e into the maps and uses it. It returns when the
// compiler has.
func (c *cache) add(ctx context.Context, owner string, e *compiled) error {
	e.err = errors.New("internal error: the compiler failed") // unless it returns
	defer c.finish(e)
	if e.f.Language == Wasm {
		// The other requests for this program get errBusy too, and may try again.
		if err := c.turns.wait(ctx, owner); err != nil {
			e.err = errBusy
			return err
		}
		defer c.turns.next()
	}
	// After the turn has come: the figures contain the time of the compiler, not of the queue.
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
	// Also after a panic of the compiler: the caller defers it.
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stats.Running--
		c.stats.Ended++
		c.stats.Time += c.now().Sub(began)
	}
}

// finish publishes the result of the compiler. Functions that cannot be compiled are forgotten. Requests that wait for
// e continue when done is closed.
func (c *cache) finish(e *compiled) {
	c.mu.Lock()
	if e.err != nil {
		c.stats.Refused++
		c.forget(e)
	} else {
		e.element = c.order.PushBack(e)
		c.bytes += e.p.bytes()
	}
	// The newest program stays in any case.
	dropped := c.evict(func() bool { return c.order.Len() > 1 && (c.order.Len() > programsMax || c.bytes > c.most) })
	c.mu.Unlock()
	// After p and err are set: requests read them without the lock.
	close(e.done)
	for _, e := range dropped {
		c.drop(e)
	}
}

// evict removes the oldest programs, as long as there are too many, and returns those that no request uses. It is
// called with mu. Requests keep using a program that is removed. Programs in use are removed as well: their memory
// returns with the last release.
func (c *cache) evict(tooMany func() bool) (unused []*compiled) {
	for c.order.Len() > 0 && tooMany() {
		oldest, _ := c.order.Remove(c.order.Front()).(*compiled)
		oldest.element = nil
		c.bytes -= oldest.p.bytes()
		c.forget(oldest)
		// Otherwise the last release drops it.
		if oldest.users == 0 {
			unused = append(unused, oldest)
		}
	}
	return unused
}

// clear removes all programs, because calls wait for memory. The next call of each function compiles it again.
func (c *cache) clear() {
	c.mu.Lock()
	// Programs in use stay in memory until their calls end, but no longer in the cache.
	dropped := c.evict(func() bool { return true })
	c.mu.Unlock()
	for _, e := range dropped {
		c.drop(e)
	}
}

// forget removes an entry from the maps. It is called with mu. The program itself may still be in use.
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

// compilations returns the present figures. They are consistent with each other.
func (c *cache) compilations() Compilations {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Kept, s.Bytes = c.order.Len(), c.bytes
	return s
}
