package query

import (
	"fmt"
	"slices"
	"strings"

	"cqld/coordinator"
	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/batchsize"
	"cqld/query/changes"
	"cqld/query/levels"
	"cqld/query/term"
	"cqld/request"
	"cqld/row"
	"cqld/types"
)

// batchPlan is the plan of BEGIN BATCH … APPLY BATCH.
type batchPlan struct {
	kind       cql.BatchKind
	timestamp  term.Term
	timeout    term.Term
	statements []*modification
}

// batchStatement is one statement of a batch with its values.
type batchStatement struct {
	m      *modification
	values []wire.Value
}

func (c *compiler) batch(pl *plan, stmt *cql.Batch) (*batchPlan, error) {
	b := &batchPlan{kind: stmt.Kind}
	if stmt.Using.TTL != nil {
		return nil, invalidf("Global TTL on the BATCH statement is not supported.")
	}
	if stmt.Using.Timestamp != nil {
		var err error
		r := Column{Name: "[timestamp]", Type: types.Native(types.Bigint)}
		if b.timestamp, err = c.Term(stmt.Using.Timestamp, r); err != nil {
			return nil, err
		}
	}
	for _, s := range stmt.Statements {
		m, err := c.modification(pl, s)
		if err != nil {
			return nil, err
		}
		if b.timestamp != nil && m.timestamp != nil {
			return nil, invalidf("Timestamp must be set either on BATCH or individual statements")
		}
		b.statements = append(b.statements, m)
	}
	if b.timestamp != nil && b.kind == cql.BatchCounter {
		return nil, invalidf("Cannot provide custom timestamp for counter BATCH")
	}
	var err error
	if b.timeout, err = c.timeout(stmt.Using.Timeout); err != nil {
		return nil, err
	}
	if err := checkBatchKinds(b.kind, b.statements); err != nil {
		return nil, err
	}
	return b, checkConditionalBatch(b.statements, b.timestamp != nil)
}

func (p *Processor) executeBatchPlan(r *request.Request, b *batchPlan, params *Params) (*Result, error) {
	statements := make([]batchStatement, len(b.statements))
	for i, m := range b.statements {
		statements[i] = batchStatement{m, params.Values}
	}
	params, err := withTimeout(params, b.timeout, params.Values)
	if err != nil {
		return nil, err
	}
	if b.timestamp != nil {
		v, err := b.timestamp.Eval(&term.Scope{Values: params.Values})
		if err != nil {
			return nil, err
		}
		with := *params
		with.HasTimestamp, with.Timestamp, with.stated = true, p.timestamps.Next(), v.Kind != wire.ValueUnset
		if err := setTimestamp(v, &with.Timestamp); err != nil {
			return nil, err
		}
		params = &with
	}
	return p.executeBatch(r, b.kind, statements, params)
}

// Batch executes a BATCH message.
func (p *Processor) Batch(r *request.Request, s *Session, params *BatchParams) (_ *Result, err error) {
	var plans []*plan // for the audit log
	defer func() { p.auditBatch(r, s, plans, params, err) }()
	return p.traced(r, &params.Params, "Execute batch of CQL3 queries", "", nil, func() (*Result, error) {
		statements := make([]batchStatement, 0, len(params.Entries))
		for i := range params.Entries {
			e := &params.Entries[i]
			pl, err := p.batchEntry(keyspaceOf(s, params.Keyspace), e)
			if err != nil {
				return nil, err
			}
			if pl.modification == nil {
				return nil, invalidf("Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.")
			}
			if len(e.Values) != len(pl.markers) {
				return nil, invalidf("There were %d markers(?) in CQL but %d bound variables", len(pl.markers), len(e.Values))
			}
			if err := p.authorize(r, pl); err != nil {
				return nil, err
			}
			statements = append(statements, batchStatement{pl.modification, e.Values})
			if p.o.Audit.Enabled() {
				plans = append(plans, pl)
			}
		}
		return p.executeBatch(r, params.Kind, statements, &params.Params)
	})
}

func (p *Processor) batchEntry(keyspace string, e *BatchEntry) (*plan, error) {
	if e.ID != nil {
		_, pl, err := p.preparedPlan(e.ID)
		return pl, err
	}
	return p.textPlan(keyspace, e.Text)
}

// executeBatch builds one mutation for each partition of each table and writes them.
func (p *Processor) executeBatch(r *request.Request, kind cql.BatchKind, statements []batchStatement, params *Params) (*Result, error) {
	for _, s := range statements {
		if s.m.timeout != nil {
			return nil, invalidf("Timeout must be set on BATCH, not on its statements")
		}
	}
	modifications := make([]*modification, len(statements))
	for i := range statements {
		modifications[i] = statements[i].m
	}
	if err := checkBatchKinds(kind, modifications); err != nil {
		return nil, err
	}
	if err := p.guardWrites(r, modifications...); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(modifications, (*modification).conditional) {
		if err := checkConditionalBatch(modifications, false); err != nil {
			return nil, err
		}
		return p.executeConditional(r, statements, true, params)
	}
	if err := levels.CheckWrite(r.Consistency); err != nil {
		return nil, err
	}
	w := p.writes.Get().(*write)
	defer p.writes.Put(w)
	timestamp := params.Timestamp
	if !params.HasTimestamp {
		timestamp = p.timestamps.Next()
	}
	var c changes.Set
	ordered, now := false, p.moment(params)
	for _, s := range statements {
		w.begin(p, r, params, s.values, now)
		if err := w.attributes(s.m, timestamp); err != nil {
			return nil, err
		}
		ordered = ordered || w.ordered(s.m.table)
		if err := w.build(s.m, func(m *row.Mutation) error { return c.Add(s.m.table, m) }); err != nil {
			return nil, err
		}
	}
	if len(c.Mutations) == 0 {
		return voidResult(), nil
	}
	if c.Partitions(true) > 1 {
		if err := p.checkBatch(r, kind, &c); err != nil {
			return nil, err
		}
	}
	if len(c.Mutations) > 1 && kind == cql.BatchLogged {
		p.warnOfGrace(r, &c)
	}
	timeouts := p.timeouts(params)
	req := &coordinator.WriteRequest{Mutations: c.Mutations, Consistency: r.Consistency,
		Type: coordinator.WriteUnloggedBatch, Timeout: timeouts.Write, Ordered: ordered, Stamp: timestamp}
	switch {
	case isCounterTable(c.Tables[0]):
		req.Type, req.Timeout = coordinator.WriteCounter, timeouts.Counter
	case kind == cql.BatchLogged && len(c.Mutations) == 1:
		req.Type = coordinator.WriteSimple
	case kind == cql.BatchLogged:
		req.Type = coordinator.WriteBatch
	}
	if err := p.execute(r, req); err != nil {
		return nil, err
	}
	return voidResult(), nil
}

// checkBatch adds a warning for a large batch over several partitions, and refuses a larger one.
func (p *Processor) checkBatch(r *request.Request, kind cql.BatchKind, c *changes.Set) error {
	size := 0
	for i, m := range c.Mutations {
		size += batchsize.Of(c.Tables[i], m)
	}
	switch l := p.o.Limits; {
	case size > l.BatchFailBytes:
		return invalidf("Batch too large")
	case size > l.BatchWarnBytes:
		r.Warn(fmt.Sprintf("Batch for %s is of size %d, exceeding specified threshold of %d by %d.",
			c.TableNames(), size, l.BatchWarnBytes, size-l.BatchWarnBytes))
	}
	if kind == cql.BatchLogged {
		return nil
	}
	if n := c.Partitions(false); n > p.o.Limits.BatchPartitions {
		plural := ""
		if strings.Contains(c.TableNames(), ",") {
			plural = "s"
		}
		r.Warn(fmt.Sprintf("Unlogged batch covering %d partitions detected against table%s %s. "+
			"You should use a logged batch for atomicity, or asynchronous writes for performance.", n, plural, c.TableNames()))
	}
	return nil
}

// warnOfGrace adds a warning if a logged batch cannot be replayed because gc_grace_seconds is zero.
func (p *Processor) warnOfGrace(r *request.Request, c *changes.Set) {
	var without []string
	for _, t := range c.Tables {
		if n := t.Keyspace + "." + t.Name; t.Options.GCGraceSeconds == 0 && !slices.Contains(without, n) {
			without = append(without, n)
		}
	}
	if len(without) == 0 {
		return
	}
	plural := ""
	if len(without) > 1 {
		plural = "s"
	}
	r.Warn(fmt.Sprintf("Executing a LOGGED BATCH on table%s [%s], configured with a gc_grace_seconds of 0. "+
		"The gc_grace_seconds is used to TTL batchlog entries, so setting gc_grace_seconds too low on tables involved in an atomic "+
		"batch might cause batchlog entries to expire before being replayed.", plural, strings.Join(without, ", ")))
}
