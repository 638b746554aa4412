package query

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"cqld/coordinator"
	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/batchsize"
	"cqld/query/levels"
	"cqld/query/term"
	"cqld/request"
	"cqld/row"
	"cqld/schema"
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
	var c mutationCollector
	ordered := false
	for _, s := range statements {
		w.begin(p, r, params, s.values, p.nowSeconds(params))
		if err := w.attributes(s.m, timestamp); err != nil {
			return nil, err
		}
		ordered = ordered || w.ordered(s.m.table)
		if err := w.build(s.m, func(m *row.Mutation) error { return c.add(s.m.table, m) }); err != nil {
			return nil, err
		}
	}
	if len(c.mutations) == 0 {
		return voidResult(), nil
	}
	if c.partitions(true) > 1 {
		if err := p.checkBatch(r, kind, &c); err != nil {
			return nil, err
		}
	}
	if len(c.mutations) > 1 && kind == cql.BatchLogged {
		p.warnOfGrace(r, &c)
	}
	timeouts := p.timeouts(params)
	req := &coordinator.WriteRequest{Mutations: c.mutations, Consistency: r.Consistency,
		Type: coordinator.WriteUnloggedBatch, Timeout: timeouts.Write, Ordered: ordered, Stamp: timestamp}
	switch {
	case isCounterTable(c.tables[0]):
		req.Type, req.Timeout = coordinator.WriteCounter, timeouts.Counter
	case kind == cql.BatchLogged && len(c.mutations) == 1:
		req.Type = coordinator.WriteSimple
	case kind == cql.BatchLogged:
		req.Type = coordinator.WriteBatch
	}
	if err := p.execute(r, req); err != nil {
		return nil, err
	}
	return voidResult(), nil
}

// mutationCollector combines the changes of each partition.
type mutationCollector struct {
	mutations []*row.Mutation
	tables    []*schema.Table     // of the mutations
	index     map[mutationKey]int // the positions of the mutations, if there are more than mutationsScanned
	bytes     int                 // of all mutations
}

// mutationKey identifies a partition of a table.
type mutationKey struct {
	table schema.StorageID
	key   string
}

// add adds a copy of m. It fails if the changes of one partition, or of all, are too large.
func (c *mutationCollector) add(t *schema.Table, m *row.Mutation) error {
	c.bytes += m.Size()
	if err := checkChanges(c.bytes); err != nil {
		return err
	}
	if x := c.find(m); x != nil {
		x.Append(m)
		return checkMutation(t, x)
	}
	x := new(row.Mutation)
	copyMutation(x, m)
	c.mutations = append(c.mutations, x)
	c.tables = append(c.tables, t)
	switch n := len(c.mutations); {
	case c.index != nil:
		c.index[mutationKey{m.Table, string(m.Key.Bytes)}] = n - 1
	case n > mutationsScanned:
		c.index = make(map[mutationKey]int, 2*n)
		for i, x := range c.mutations {
			c.index[mutationKey{x.Table, string(x.Key.Bytes)}] = i
		}
	}
	return nil
}

// find returns the mutation of the same partition as m, or nil.
func (c *mutationCollector) find(m *row.Mutation) *row.Mutation {
	if c.index != nil {
		if i, ok := c.index[mutationKey{m.Table, string(m.Key.Bytes)}]; ok {
			return c.mutations[i]
		}
		return nil
	}
	for _, x := range c.mutations {
		if x.Table == m.Table && bytes.Equal(x.Key.Bytes, m.Key.Bytes) {
			return x
		}
	}
	return nil
}

// partitions returns the number of different partition keys, per keyspace or in total. As in Cassandra, rows of
// several tables of a keyspace with the same key are one partition.
func (c *mutationCollector) partitions(inKeyspaces bool) int {
	keys := make(map[string]bool, len(c.mutations))
	for i, m := range c.mutations {
		key := string(m.Key.Bytes)
		if inKeyspaces {
			key = c.tables[i].Keyspace + "\x00" + key
		}
		keys[key] = true
	}
	return len(keys)
}

// tableNames returns the tables that are written, as warnings list them.
func (c *mutationCollector) tableNames() string {
	var names []string
	for _, t := range c.tables {
		if n := t.Keyspace + "." + t.Name; !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return "[" + strings.Join(names, ", ") + "]"
}

// checkBatch adds a warning for a large batch over several partitions, and refuses a larger one.
func (p *Processor) checkBatch(r *request.Request, kind cql.BatchKind, c *mutationCollector) error {
	size := 0
	for i, m := range c.mutations {
		size += batchsize.Of(c.tables[i], m)
	}
	switch l := p.o.Limits; {
	case size > l.BatchFailBytes:
		return invalidf("Batch too large")
	case size > l.BatchWarnBytes:
		r.Warn(fmt.Sprintf("Batch for %s is of size %d, exceeding specified threshold of %d by %d.",
			c.tableNames(), size, l.BatchWarnBytes, size-l.BatchWarnBytes))
	}
	if kind == cql.BatchLogged {
		return nil
	}
	if n := c.partitions(false); n > p.o.Limits.BatchPartitions {
		plural := ""
		if strings.Contains(c.tableNames(), ",") {
			plural = "s"
		}
		r.Warn(fmt.Sprintf("Unlogged batch covering %d partitions detected against table%s %s. "+
			"You should use a logged batch for atomicity, or asynchronous writes for performance.", n, plural, c.tableNames()))
	}
	return nil
}

// warnOfGrace adds a warning if a logged batch cannot be replayed because gc_grace_seconds is zero.
func (p *Processor) warnOfGrace(r *request.Request, c *mutationCollector) {
	var without []string
	for _, t := range c.tables {
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
