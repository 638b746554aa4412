package entity

import (
	"errors"
	"sync"
	"time"

	"cqld/azuretables/odata"
	"cqld/coordinator"
	"cqld/internal/uuid"
	"cqld/schema"
)

// Store provides the accounts, tables and entities of a cluster on one node. It is safe for concurrent use and has no
// goroutines of its own. The pools and the caches are per Store, so tests of several nodes in one process do not share
// them. It holds no state but caches and pools; everything else is in the cluster's metadata and in its tables.
type Store struct {
	o            Options
	catalogs     catalogs  // by account
	altering     altering  // by table
	transactions sync.Pool // *transaction
	decoders     sync.Pool // *decoder
	rand         struct {  // Rand is used for new table IDs only
		sync.Mutex
		Rand interface{ Uint64() uint64 }
	}
}

var _ Service = (*Store)(nil)

// New returns a Store. The options must be complete: Executor, View, Changer, Clock and Rand are required.
func New(o Options) *Store {
	o.Limits = o.Limits.withDefaults()
	o.Timeouts = o.Timeouts.withDefaults()
	s := &Store{o: o}
	s.rand.Rand = o.Rand
	s.transactions.New = func() any { return newTransaction(s) }
	s.decoders.New = func() any { return new(decoder) }
	return s
}

// Timeouts bounds the duration of one request's parts. Zero fields mean Cassandra's values. They bound parts of a
// request; its own deadline bounds all of them together.
type Timeouts struct {
	Read  time.Duration // of rows from replicas
	Write time.Duration // for the replicas' responses to a change
	CAS   time.Duration // of one attempt under contention
	// Change bounds all attempts at a change together.
	Change time.Duration
	// Page is the time after which a page of a query ends, even with few entities. A page ends between rows, so it
	// never takes longer than Page by much.
	Page time.Duration
}

// withDefaults returns the timeouts with defaults in place of zero fields. t itself does not change.
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

// now returns the time in seconds that determines what has expired. It is read once per request, so that a page does
// not mix two times. Expiration is in whole seconds.
func (s *Store) now() int64 { return s.o.Clock.Now().Unix() }

// newID returns the ID of a new table. Rand is not safe for concurrent use.
func (s *Store) newID() schema.UUID {
	s.rand.Lock()
	defer s.rand.Unlock()
	return uuid.Random(s.rand.Rand)
}

// known converts an error of the coordinator for the protocol server: the error of a table deleted during the request
// becomes TableNotFound. Every other error keeps its type, which the server maps to the codes of the service. It is
// applied to every result of the executor.
func known(err error) error {
	var unknownTable *coordinator.UnknownTable
	if errors.As(err, &unknownTable) {
		return odata.Of(odata.TableNotFound)
	}
	return err
}

// invalid returns InvalidInput with the given message. It is for errors that package odata does not have a message
// for.
func invalid(message string) *odata.Error {
	return &odata.Error{Code: odata.InvalidInput, Message: message}
}
