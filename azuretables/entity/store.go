package entity

import (
	"errors"
	"sync"
	"time"

	"cqld/azuretables/odata"
	"cqld/coordinator"
	"cqld/schema"
)

// Store is the accounts, tables and entities of a cluster, as one node serves them. It is safe for
// concurrent use and has no goroutines of its own.
type Store struct {
	o            Options
	catalogs     catalogs
	altering     altering
	transactions sync.Pool // *transaction
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
	s := &Store{o: o}
	s.rand.Rand = o.Rand
	s.transactions.New = func() any { return newTransaction(s) }
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

// known returns an error of the coordinator as the protocol server knows it: one of a table that was deleted meanwhile is
// TableNotFound.
func known(err error) error {
	var gone *coordinator.UnknownTable
	if errors.As(err, &gone) {
		return odata.Of(odata.TableNotFound)
	}
	return err
}

// invalid is InvalidInput with a message of its own.
func invalid(message string) *odata.Error {
	return &odata.Error{Code: odata.InvalidInput, Message: message}
}
