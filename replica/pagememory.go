package replica

import (
	"context"
	"sync/atomic"

	"cqld/coordinator"
	"cqld/internal/memory"
	"cqld/row"
)

// pageMemoryFree is the size up to which a page needs no reservation: with 256 workers, 16 MiB in all.
const pageMemoryFree = 64 << 10

// page accounts for the memory of one page; it is pooled. If a request of this node bounds the page, the request has
// reserved its memory.
type page struct {
	// memory is the account of the page's reservation. It is closed with the page.
	memory memory.Account
	turn   memory.Turn // of the read
	ended  *atomic.Int64
	bytes  []byte
	cmd    row.ReadCommand
}

// Grow implements row.PageMemory for commands that do not bound their pages. If no more memory is available, the page
// ends early, and its reader requests the next one, as after every full page.
func (p *page) Grow(n int) bool {
	// Grow never waits for memory: the page ends instead, and its rows so far are useful.
	if more := int64(n) - pageMemoryFree - p.memory.Bytes(); more > 0 && !p.memory.TryGrow(more) {
		p.ended.Add(1)
		return false
	}
	return true
}

// reserve reserves memory for a page that another node bounds. It may wait in its worker, which holds no other memory
// then.
func (p *page) reserve() error { return reservePage(&p.memory, p.cmd.Limits) }

// reservePage reserves the memory of a page that is bounded by limits, beyond what needs no reservation. It may wait.
func reservePage(a *memory.Account, limits row.Limits) error {
	// The whole bound is reserved although the page may be smaller, because the account is closed as soon as the page
	// was sent.
	n := int64(limits.Bytes)
	if n <= pageMemoryFree {
		return nil
	}
	if err := a.Grow(context.Background(), n); err != nil {
		return &coordinator.Overloaded{What: err.Error()}
	}
	return nil
}

// ReservePage reserves memory for a page that another node bounds and that ReadPage reads. It may wait, so its caller
// must hold nothing for which others wait without a bound. The caller releases the memory when it has passed the page
// on.
func (l *Local) ReservePage(limits row.Limits) (release func(), err error) {
	if l.memory == nil || limits.Bytes <= pageMemoryFree {
		return func() {}, nil
	}
	a := new(memory.Account)
	l.memory.Open(a, memory.Origin{}, nil)
	if err := reservePage(a, limits); err != nil {
		a.Close()
		return nil, err
	}
	return a.Close, nil
}

// freePage closes the account of a page, and returns the page to the pool.
func (l *Local) freePage(p *page) {
	p.turn.Rest() // after a panic
	p.memory.Close()
	// The command refers to the payload of the request, which must not be kept with the page.
	p.cmd = row.ReadCommand{}
	// A larger buffer is left to the garbage collector; otherwise one large page would keep its memory forever.
	if cap(p.bytes) <= pageKept {
		l.pages.Put(p)
	}
}

// SetMemory sets the memory of requests, of which pages are a part; nil means no bound. It is called before the first
// request.
func (l *Local) SetMemory(pool *memory.Pool) { l.memory = pool }

// EndedPages returns the number of pages that have ended early, for lack of memory, since the start.
func (l *Local) EndedPages() int64 { return l.ended.Load() }
