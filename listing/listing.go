package listing

import (
	"bytes"
	"slices"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/guard"
	"cqld/ring"
	"cqld/schema"
)

// Span is an interval of partition keys in the order of their bytes: From is inside, To is not. A nil To means no end.
type Span struct{ From, To []byte }

// empty reports whether no key can be in s.
func (s Span) empty() bool { return s.To != nil && bytes.Compare(s.From, s.To) >= 0 }

// contains reports whether key is in s.
func (s Span) contains(key []byte) bool {
	return bytes.Compare(key, s.From) >= 0 && (s.To == nil || bytes.Compare(key, s.To) < 0)
}

// after returns the part of s that follows key in the given direction. It does not keep key.
func (s Span) after(key []byte, reversed bool) Span {
	if reversed {
		return Span{From: s.From, To: slices.Clone(key)}
	}
	// The key with a zero byte appended is the next one in the order of bytes.
	return Span{From: append(slices.Clone(key), 0), To: s.To}
}

// compareKeys compares keys in the order of a listing.
func compareKeys(a, b []byte, reversed bool) int {
	if reversed {
		return bytes.Compare(b, a)
	}
	return bytes.Compare(a, b)
}

// Request asks for the partition keys of a table in key order, ascending unless Reversed.
type Request struct {
	Table       *schema.Table
	Span        Span
	Limit       int // of the keys in the result; zero, like more than Limits.Keys, means Limits.Keys
	Reversed    bool
	Consistency ring.Consistency
	Timeout     time.Duration
	// Patience is the time after which an incomplete result is returned, if the watermark has reached a key by then.
	// Zero means that only a complete result is returned.
	Patience time.Duration
	Now      int64 // seconds since 1970; decides what has expired
	// Dead includes partitions without a live row. Replicas then need not check whether a partition has one, which is
	// most of the cost of a listing. It suits callers that read every partition anyway.
	Dead  bool
	Trace coordinator.Trace // nil means that the request is not traced
	// Cancel ends the listing early with env.ErrCanceled, here and on the replicas. nil means that the listing cannot
	// be canceled.
	Cancel *env.Cancel
	// Grow reserves memory for the keys of nodes, and for the result. Without enough, the listing fails with
	// coordinator.NeedsMemory, and can be repeated.
	Grow coordinator.Grow
}

// Result contains the keys of a Request, up to its limit.
type Result struct {
	Keys [][]byte
	More bool // there may be further keys after Reached
	// Reached is the last key of the interval that the result covers if More is set: the last of Keys, or one after it
	// if the request's Patience ended the listing.
	Reached []byte
	// Scanned is the number of keys examined by the replica that examined most.
	Scanned int
}

// Options configures a Lister. Coordinator, View, Replicas and Clock are required.
type Options struct {
	Coordinator     *coordinator.Coordinator
	View            coordinator.View
	Replicas        Replicas
	Clock           env.Clock
	LocalDatacenter string
	Limits          Limits
	Guard           *guard.Guard // ends listings that panic; nil means that panics are not recovered
}

// Lister lists partition keys for clients of this node. Its methods may be called from any goroutine.
type Lister struct {
	c        *coordinator.Coordinator
	view     coordinator.View
	replicas Replicas
	clock    env.Clock
	localDC  string
	limits   Limits
	guard    *guard.Guard // may be nil
	counts   counters
}

// New returns a Lister.
func New(o Options) *Lister {
	return &Lister{c: o.Coordinator, view: o.View, replicas: o.Replicas, clock: o.Clock, localDC: o.LocalDatacenter,
		limits: o.Limits.withDefaults(), guard: o.Guard}
}

// List calls done exactly once, possibly before it returns: with a result, or with an error of a read of package
// coordinator. req must not change until then. A table without a partition index (schema.Table.OrderedPartitions) is
// scanned.
func (l *Lister) List(req *Request, done func(*Result, error)) {
	if l.view.Schema().TableByStorage(req.Table.StorageID) == nil {
		done(nil, &coordinator.UnknownTable{Table: req.Table.StorageID})
		return
	}
	if req.Cancel.Err() != nil {
		done(nil, env.ErrCanceled)
		return
	}
	// An empty span needs no read, and no live replica.
	if req.Span.empty() {
		done(&Result{}, nil)
		return
	}
	// A request may ask for fewer keys than the limit, never for more.
	limit := l.limits.Keys
	if req.Limit > 0 {
		limit = min(limit, req.Limit)
	}
	// With a partition index, replicas return keys in order. Without one, all partitions are read in the order of
	// tokens.
	if req.Table.OrderedPartitions() {
		l.counts.ordered.Add(1)
		l.listOrdered(req, limit, done)
		return
	}
	l.counts.scans.Add(1)
	l.scan(req, limit, done)
}
