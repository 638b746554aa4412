package query

import (
	"context"
	"errors"
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/schema"
)

// call is one request to the coordinator that is waited for. Its callbacks are made once, so that a
// request allocates none.
type call struct {
	waiter env.Waiter
	err    error
	page   []byte // a copy: the coordinator's is valid during the callback only
	onDone func(error)
	onPage func([]byte, error)
}

// calls are idle calls.
type calls struct {
	pool      sync.Pool
	newWaiter func() env.Waiter
}

func (cs *calls) get() *call {
	if c, ok := cs.pool.Get().(*call); ok {
		return c
	}
	c := &call{waiter: cs.newWaiter()}
	c.onDone = func(err error) {
		c.err = err
		c.waiter.Signal()
	}
	c.onPage = func(page []byte, err error) {
		c.err = err
		c.page = append(c.page[:0], page...)
		c.waiter.Signal()
	}
	return c
}

// pageKeepMax bounds the memory an idle call keeps.
const pageKeepMax = 1 << 20

func (cs *calls) put(c *call) {
	c.err = nil
	if cap(c.page) > pageKeepMax {
		c.page = nil
	}
	cs.pool.Put(c)
}

func (p *Processor) write(req *coordinator.WriteRequest) error {
	c := p.calls.get()
	switch req.Type {
	case coordinator.WriteCounter:
		p.o.Counters.Update(req, c.onDone)
	case coordinator.WriteBatch:
		p.o.Batches.Write(req, c.onDone)
	default:
		p.o.Store.Write(req, c.onDone)
	}
	c.waiter.Wait()
	err := c.err
	p.calls.put(c)
	return err
}

// read answers with a call that holds the page; the caller puts it back. When ctx ends, it ends req.Cancel, if there is
// one, and with it the read.
func (p *Processor) read(ctx context.Context, req *coordinator.ReadRequest) (*call, error) {
	c := p.calls.get()
	req.Blocks = true // this is the request's own goroutine
	p.o.Store.Read(req, c.onPage)
	env.WaitOrCancel(ctx, c.waiter, req.Cancel)
	if err := c.err; err != nil {
		p.calls.put(c)
		return nil, ended(err)
	}
	return c, nil
}

// ended makes the error of a read that was canceled the one that the owners of contexts know.
func ended(err error) error {
	if errors.Is(err, env.ErrCanceled) {
		return context.Canceled
	}
	return err
}

func (p *Processor) truncate(t *schema.Table, timeout time.Duration) error {
	c := p.calls.get()
	p.o.Store.Truncate(t, timeout, c.onDone)
	c.waiter.Wait()
	err := c.err
	p.calls.put(c)
	return err
}
