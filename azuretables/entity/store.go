package entity

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"cqld/azuretables/odata"
	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/ring"
	"cqld/schema"
)

// Store is the accounts, tables and entities of a cluster, as one node serves them. It is safe for
// concurrent use and has no goroutines of its own.
type Store struct {
	o            Options
	catalogs     catalogs
	altering     altering
	transactions sync.Pool // *transaction
	reads        sync.Pool // *read
	decoders     sync.Pool // *decoder
	rand         struct {
		sync.Mutex
		Rand interface{ Uint64() uint64 }
	}
}

var _ Service = (*Store)(nil)

// New makes a Store.
func New(o Options) *Store {
	o.Limits = o.Limits.withDefaults()
	o.Timeouts = o.Timeouts.withDefaults()
	if o.NewWaiter == nil {
		o.NewWaiter = env.NewChannelWaiter
	}
	s := &Store{o: o}
	s.rand.Rand = o.Rand
	s.transactions.New = func() any { return newTransaction(s) }
	s.reads.New = func() any { return newRead(s) }
	s.decoders.New = func() any { return new(decoder) }
	return s
}

// Timeouts bound what one request may take. Zero fields get Cassandra's values.
type Timeouts struct {
	Read  time.Duration // of rows from replicas
	Write time.Duration // for replicas' answers to a change
	CAS   time.Duration // of one attempt at a change that others are ahead of
	// Change bounds all attempts at a change together.
	Change time.Duration
	// Page is when a page of a query ends, however few entities it has.
	Page time.Duration
}

func (t Timeouts) withDefaults() Timeouts {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&t.Read, 5*time.Second)
	set(&t.Write, 2*time.Second)
	set(&t.CAS, time.Second)
	set(&t.Change, 10*time.Second)
	set(&t.Page, 5*time.Second)
	return t
}

// now is the present in seconds, by which what has expired is decided.
func (s *Store) now() int64 { return s.o.Clock.Now().Unix() }

func (s *Store) newID() (id schema.UUID) {
	s.rand.Lock()
	hi, lo := s.rand.Rand.Uint64(), s.rand.Rand.Uint64()
	s.rand.Unlock()
	for i := range 8 {
		id[i], id[8+i] = byte(hi>>(8*i)), byte(lo>>(8*i))
	}
	id[6], id[8] = id[6]&0x0F|0x40, id[8]&0x3F|0x80
	return id
}

// keptMax bounds the memory that an idle read keeps, until the second garbage collection: a page of 1000
// entities of 1 KB fits.
const keptMax = 2 << 20

// read is one read from the coordinator that is waited for; its callback is made once.
type read struct {
	waiter env.Waiter
	req    coordinator.ReadRequest
	page   []byte // a copy: the coordinator's is valid during the callback only
	err    error
	onPage func([]byte, error)
	// answered tells, without waiting, that end would not wait.
	answered atomic.Bool
}

func newRead(s *Store) *read {
	r := &read{waiter: s.o.NewWaiter()}
	r.onPage = func(page []byte, err error) {
		r.err = err
		r.page = append(r.page[:0], page...)
		r.answered.Store(true)
		r.waiter.Signal()
	}
	return r
}

// begin starts the read that r.req.Command, which stays as it is until end, says.
func (s *Store) begin(r *read, timeout time.Duration) {
	r.req.Consistency, r.req.Timeout, r.req.Blocks = ring.Quorum, timeout, true // the request's own goroutine reads
	r.answered.Store(false)
	s.o.Coordinator.Read(&r.req, r.onPage)
}

// end waits for the answer: a page that is valid until r is put back. The end of ctx ends the read, if it has a Cancel.
func (r *read) end(ctx context.Context) ([]byte, error) {
	env.WaitOrCancel(ctx, r.waiter, r.req.Cancel)
	return r.page, known(r.err)
}

func (s *Store) put(r *read) {
	r.req, r.err = coordinator.ReadRequest{}, nil
	if cap(r.page) > keptMax {
		r.page = nil
	}
	s.reads.Put(r)
}

// known is an error of the coordinator as the server must know it: of a table that was deleted meanwhile, or of a request
// that was canceled.
func known(err error) error {
	var gone *coordinator.UnknownTable
	switch {
	case errors.As(err, &gone):
		return odata.Of(odata.TableNotFound)
	case errors.Is(err, env.ErrCanceled):
		return context.Canceled
	}
	return err
}

// invalid is InvalidInput with a message of its own.
func invalid(message string) *odata.Error {
	return &odata.Error{Code: odata.InvalidInput, Message: message}
}
