package execution

import (
	"cmp"
	"time"

	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/query/term"
	"cqld/types"
)

// Timeouts are the timeouts of requests to the coordinator. Zero means not set (WithDefaults).
type Timeouts struct {
	Read, Range, Write, Counter, CAS, Truncate time.Duration
	// Schema is the timeout of a schema change. It bounds the wait while no majority of the voters is reachable.
	Schema time.Duration
}

// WithDefaults returns t with the timeouts of cassandra.yaml for those that are not set.
func (t Timeouts) WithDefaults() Timeouts {
	t.Read = cmp.Or(t.Read, 5*time.Second)
	t.Range = cmp.Or(t.Range, 10*time.Second)
	t.CAS = cmp.Or(t.CAS, time.Second)
	t.Write = cmp.Or(t.Write, 2*time.Second)
	t.Counter = cmp.Or(t.Counter, 5*time.Second)
	t.Truncate = cmp.Or(t.Truncate, time.Minute)
	t.Schema = cmp.Or(t.Schema, 8*time.Second) // cqlsh and the Python driver wait 10 s for a reply
	return t
}

// CompileTimeout compiles USING TIMEOUT. It returns nil if t is nil, which means that the statement has no USING
// TIMEOUT.
func CompileTimeout(c *term.Compiler, t cql.Term) (term.Term, error) {
	if t == nil {
		return nil, nil
	}
	return c.Term(t, c.Receiver("[timeout]", types.Native(types.Duration)))
}

// WithTimeout returns p with the value of USING TIMEOUT, which replaces the configured timeouts. t may be nil.
func (p *Params) WithTimeout(t term.Term, values []wire.Value) (*Params, error) {
	if t == nil {
		return p, nil
	}
	// An unset bind variable leaves the configured timeouts in force.
	v, err := t.Eval(&term.Scope{Values: values})
	if err != nil || v.Kind == wire.ValueUnset {
		return p, err
	}
	d, ok := types.DecodeDuration(v.Bytes)
	if !ok {
		return nil, invalid.Errorf("Timeout value cannot be null")
	}
	with := *p
	with.timeout, err = positiveTimeout(d)
	return &with, err
}

// positiveTimeout validates the value of USING TIMEOUT with ScyllaDB's rules, since Cassandra has no USING TIMEOUT.
// It rejects months and days, which have no fixed length.
func positiveTimeout(d types.DurationValue) (time.Duration, error) {
	switch {
	case d.Months != 0 || d.Days != 0:
		return 0, invalid.Errorf("Timeout values cannot be expressed in days/months")
	case d.Nanos%int64(time.Millisecond) != 0:
		return 0, invalid.Errorf("Timeout values cannot have granularity finer than milliseconds")
	case d.Nanos <= 0:
		return 0, invalid.Errorf("Timeout values must be positive")
	}
	return time.Duration(d.Nanos), nil
}
