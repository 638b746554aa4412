package query

import (
	"time"

	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/term"
	"cqld/types"
)

// timeout compiles USING TIMEOUT; t is nil if the statement has none.
func (c *compiler) timeout(t cql.Term) (term.Term, error) {
	if t == nil {
		return nil, nil
	}
	return c.Term(t, c.Receiver("[timeout]", types.Native(types.Duration)))
}

// withTimeout returns params with the timeout of the statement, which replaces the configured ones; t may be nil.
func withTimeout(params *Params, t term.Term, values []wire.Value) (*Params, error) {
	if t == nil {
		return params, nil
	}
	v, err := t.Eval(&term.Scope{Values: values})
	if err != nil || v.Kind == wire.ValueUnset {
		return params, err
	}
	d, ok := types.DecodeDuration(v.Bytes)
	if !ok {
		return nil, invalidf("Timeout value cannot be null")
	}
	with := *params
	with.timeout, err = positiveTimeout(d)
	return &with, err
}

// positiveTimeout checks the value of USING TIMEOUT, with ScyllaDB's rules.
func positiveTimeout(d types.DurationValue) (time.Duration, error) {
	switch {
	case d.Months != 0 || d.Days != 0:
		return 0, invalidf("Timeout values cannot be expressed in days/months")
	case d.Nanos%int64(time.Millisecond) != 0:
		return 0, invalidf("Timeout values cannot have granularity finer than milliseconds")
	case d.Nanos <= 0:
		return 0, invalidf("Timeout values must be positive")
	}
	return time.Duration(d.Nanos), nil
}

// timeouts returns the timeouts of a statement with these parameters.
func (p *Processor) timeouts(params *Params) Timeouts {
	d := params.timeout
	if d == 0 {
		return p.o.Timeouts
	}
	return Timeouts{Read: d, Range: d, Write: d, Counter: d, CAS: d, Truncate: d, Schema: d}
}

// truncateTimeout returns the timeout of a TRUNCATE, which cannot be a bind marker.
func truncateTimeout(stmt *cql.Truncate, configured time.Duration) (time.Duration, error) {
	if stmt.Timeout == nil {
		return configured, nil
	}
	l, ok := stmt.Timeout.(*cql.Literal)
	if !ok {
		return 0, invalidf("Bind variables cannot be used for the timeout of TRUNCATE")
	}
	b, err := types.Native(types.Duration).FromText(l.Text)
	if err != nil {
		return 0, invalidf("%v", err)
	}
	d, _ := types.DecodeDuration(b)
	return positiveTimeout(d)
}

// setTimeout sets the timeouts of the statement.
func (run *selectRun) setTimeout(params *Params, values []wire.Value) error {
	params, err := withTimeout(params, run.plan.timeout, values)
	if err != nil {
		return err
	}
	run.timeouts = run.p.timeouts(params)
	if params.timeout > 0 {
		run.deadline = run.p.o.Clock.Monotonic() + params.timeout
	}
	return nil
}
