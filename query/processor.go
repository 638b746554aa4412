package query

import (
	"sync"
	"sync/atomic"

	"cqld/audit"
	"cqld/cql"
	"cqld/internal/env"
	"cqld/internal/uuid"
	"cqld/query/execution"
	"cqld/query/function"
	"cqld/query/invalid"
	"cqld/query/permissions"
	"cqld/query/plancache"
	"cqld/query/read"
	"cqld/query/roles"
	"cqld/query/term"
	"cqld/query/write"
	"cqld/request"
	"cqld/schema"
	"cqld/udf"
)

// Processor executes statements. Its methods are safe for concurrent use, and block until the statement is complete. It
// has no goroutines and needs no Close.
type Processor struct {
	// o contains the options, with defaults for zero fields.
	o             Options
	services      *execution.Services
	reader        *read.Reader
	writer        *write.Writer
	functions     *function.Library
	runtime       *udf.Runtime // runs user-defined functions
	userFunctions *userFunctions
	// prepared caches prepared statements by id, and texts caches plans of recent query texts. Both evict with CLOCK
	// (plancache).
	prepared *plancache.Cache[planID, plan]
	texts    *plancache.Cache[planText, plan]
	traces   traces
	// results contains the Results that Release has returned.
	results sync.Pool // *Result

	regularExecuted, preparedExecuted atomic.Int64 // executed statements, except those in BATCH messages
}

// New returns a Processor. The Processor keeps o.
func New(o Options) *Processor {
	o.Limits = defaultLimits(o.Limits)
	// The default generator never decreases, even if the clock does.
	if o.Timestamps == nil {
		o.Timestamps = env.NewHLC(o.Clock, 0)
	}
	p := &Processor{
		o: o,
		services: &execution.Services{Executor: o.Executor, View: o.View, Clock: o.Clock, IDs: uuid.New(o.Rand),
			Timestamps: o.Timestamps,
			Timeouts:   o.Timeouts.WithDefaults(), Virtual: o.Virtual, Masking: o.DynamicDataMasking,
			Guardrails: o.Guardrails,
			BoundsData: o.Guardrails != nil && o.Guardrails.BoundsData(), IsSuperuser: o.IsSuperuser},
		functions: function.New(),
		runtime: udf.New(udf.Options{Limits: o.FunctionLimits, Now: o.Clock.Now, Memory: o.FunctionMemory,
			Guard: o.Guard}),
		prepared: plancache.New[planID, plan](o.Limits.PreparedBytesMax),
		// The capacity is textsMax plans of the usual size.
		texts: plancache.New[planText, plan](textsMax * plancache.PlanBytes * 2),
	}
	p.traces = traces{secret: o.PagingKey, budget: o.TraceBudget}
	p.userFunctions = newUserFunctions(p.runtime, !o.NoUserFunctions)
	p.reader = read.New(read.Options{Services: p.services, Stored: o.Stored, Estimate: o.Estimate,
		IndexEntries: o.IndexEntries,
		PageBytes:    o.PageBytes, PagingKey: o.PagingKey, SharedPaging: o.SharedPaging, Hidden: p.hidden,
		Visible: p.visible})
	p.writer = write.New(write.Options{Services: p.services, BatchWarnBytes: o.Limits.BatchWarnBytes,
		BatchFailBytes:    o.Limits.BatchFailBytes,
		BatchPartitions:   o.Limits.BatchPartitions,
		TimestampAheadMax: o.Limits.TimestampAheadMax, TimestampAheadWarn: o.Limits.TimestampAheadWarn})
	return p
}

// Query parses and executes text. The plan of a text is cached if it is short, so clients that do not prepare
// statements are served well, too.
func (p *Processor) Query(r *request.Request, s *Session, text string, params *Params) (_ *Result, err error) {
	var pl *plan
	// The closure reads pl and err when Query returns.
	defer func() { p.audit(r, s, pl, text, audit.Subject.Executed, err) }()
	return p.traced(r, params, "Execute CQL3 query", text, nil, func() (_ *Result, err error) {
		ks, err := p.keyspaceOf(s, params.Keyspace)
		if err != nil {
			return nil, err
		}
		if pl, err = p.textPlan(r, ks, text); err != nil {
			return nil, err
		}
		p.regularExecuted.Add(1)
		values := pl.values(params)
		if len(values) != len(pl.markers) {
			return nil, invalid.Errorf("Invalid amount of bind variables")
		}
		// Copy params, which belong to the caller.
		params := *params
		params.Values, params.Names = values, nil
		return p.run(r, s, pl, &params)
	})
}

// keyspaceOf returns the keyspace of unqualified names: the keyspace of the request or, if it has none, of the
// session. The keyspace of the request must exist even if the statement has no unqualified names.
func (p *Processor) keyspaceOf(s *Session, keyspace string) (string, error) {
	if keyspace == "" {
		return s.Keyspace, nil
	}
	if p.services.View.Schema().Keyspace(keyspace) == nil {
		return "", invalid.Errorf("Keyspace '%s' does not exist", keyspace)
	}
	return keyspace, nil
}

// textPlan returns the plan of a text, from the cache if possible. Only plans of short texts are cached, and no
// definitions, which are executed once.
func (p *Processor) textPlan(r *request.Request, keyspace, text string) (*plan, error) {
	now := p.services.View.Schema()
	k := planText{Keyspace: keyspace, Text: text}
	if len(text) <= textKeepMax {
		if e := p.texts.Get(k); e != nil {
			// An outdated entry is replaced below.
			if pl := e.Plan(); pl.valid(now) {
				return pl, nil
			}
		}
	}
	stmt, kept, err := parse(r, text)
	if err != nil {
		return nil, err
	}
	pl, err := p.compile(now, keyspace, text, stmt)
	r.Memory.Rest()
	if err == nil && pl.isData() && len(text) <= textKeepMax {
		p.texts.Put(k, pl, kept, pl.resultID())
	}
	return pl, err
}

// parse parses text. It reserves memory by the length of the text before the parser allocates anything. Afterwards it
// returns the reservation except for kept bytes, which the statement and its plan use. If it succeeds, the caller
// must end the computation with Rest.
func parse(r *request.Request, text string) (stmt cql.Statement, kept int, err error) {
	parsed, kept := cql.ParseBytes(text)
	// An overloaded node rejects the statement here.
	if err := r.Grow(parsed); err != nil {
		return nil, 0, err
	}
	// Parsing a long text first waits until other requests have finished their computations.
	r.Memory.Work(len(text))
	if stmt, err = cql.Parse(text); err != nil {
		r.Memory.Rest()
	}
	r.Memory.Shrink(int64(parsed - kept))
	return stmt, kept, err
}

// Prepare compiles and caches text. The result has KindPrepared. keyspace, unless empty, overrides the session's
// (v5). Preparing the same text again returns the same id. The cache may evict the plan at any time; clients then
// receive Unprepared and prepare the statement again.
func (p *Processor) Prepare(r *request.Request, s *Session, text, keyspace string) (_ *Result, err error) {
	var pl *plan
	defer func() { p.audit(r, s, pl, text, audit.Subject.Prepared, err) }()
	return p.traced(r, nil, "Preparing CQL3 query", text, nil, func() (result *Result, err error) {
		pl, result, err = p.prepare(r, s, text, keyspace)
		return result, err
	})
}

// prepare is Prepare without a trace. The plan is nil if the text cannot be compiled.
func (p *Processor) prepare(r *request.Request, s *Session, text, keyspace string) (*plan, *Result, error) {
	ks, err := p.keyspaceOf(s, keyspace)
	if err != nil {
		return nil, nil, err
	}
	stmt, kept, err := parse(r, text)
	if err != nil {
		return nil, nil, err
	}
	pl, err := p.compile(p.services.View.Schema(), ks, text, stmt)
	r.Memory.Rest()
	if err != nil {
		return nil, nil, err
	}
	// As in Cassandra, the keyspace in use is part of the id only if the statement depends on it.
	id := preparedID("", text)
	if ks != "" && !fullyQualified(stmt) {
		id = preparedID(ks, text)
	}
	// The plan would not fit even after all others were evicted.
	if plancache.Size(kept) > p.o.Limits.PreparedBytesMax {
		return pl, nil, invalid.Errorf("Prepared statement of size %d bytes is larger than allowed maximum of %d bytes",
			plancache.Size(kept), p.o.Limits.PreparedBytesMax)
	}
	e := p.prepared.Put(id, pl, kept, pl.resultID())
	info := &PreparedInfo{ID: e.Key[:], Binds: pl.binds(), PartitionKey: pl.partitionKey, Result: pl.metadata}
	// The protocol has empty result metadata for statements without rows.
	if info.Result == nil {
		info.Result = newMetadata(nil)
	}
	return pl, &Result{Kind: KindPrepared, Prepared: info}, nil
}

// preparedPlan returns a prepared statement's plan, and compiles it again if the schema has changed. As in Cassandra,
// a statement on a table whose columns changed must be prepared again: clients then receive the new columns of its
// result and its markers.
func (p *Processor) preparedPlan(id []byte) (*plancache.Entry[planID, plan], *plan, error) {
	// All ids have 16 bytes, so no statement has this id.
	if len(id) != 16 {
		return nil, nil, &invalid.Unprepared{ID: append([]byte(nil), id...)}
	}
	// A stale entry stays in the cache until the statement is prepared again.
	e := p.prepared.Get(planID(id))
	if e == nil || e.Stale() {
		return nil, nil, &invalid.Unprepared{ID: append([]byte(nil), id...)}
	}
	pl := e.Plan()
	now := p.services.View.Schema()
	if pl.valid(now) {
		return e, pl, nil
	}
	// Clients must learn of new columns, so they prepare the statement again.
	if pl.outdated(now) {
		e.MarkStale()
		return nil, nil, &invalid.Unprepared{ID: append([]byte(nil), id...)}
	}
	// Two goroutines may compile the same plan; the last result replaces the other.
	pl, err := p.recompile(now, pl)
	if err != nil {
		return nil, nil, err
	}
	e.Replace(pl)
	return e, pl, nil
}

// recompile compiles a prepared statement for another schema.
func (p *Processor) recompile(now *schema.Schema, pl *plan) (*plan, error) {
	return p.compile(now, pl.keyspace, pl.text, pl.stmt)
}

// Execute executes a prepared statement. Params.Values are by position, or have Names. r.Tracing requests a trace.
func (p *Processor) Execute(r *request.Request, s *Session, id []byte, params *Params) (_ *Result, err error) {
	// The deferred audit needs the plan, and also records a failed lookup.
	e, pl, err := p.preparedPlan(id)
	defer func() { p.audit(r, s, pl, "", audit.Subject.Executed, err) }()
	if err != nil && r.Tracing {
		return p.traced(r, params, "Execute CQL3 prepared query", "", []term.Marker{},
			func() (*Result, error) { return nil, err })
	}
	if err != nil {
		return nil, err
	}
	p.preparedExecuted.Add(1)
	// Create closures for the trace only if tracing is on.
	if r.Tracing {
		// Copy params, which belong to the caller.
		if params.Names != nil {
			named := *params
			named.Values, named.Names = pl.values(params), nil
			params = &named
		}
		markers := append([]term.Marker{}, pl.markers...) // not nil: nil means not prepared
		return p.traced(r, params, "Execute CQL3 prepared query", pl.text, markers, func() (*Result, error) {
			return p.executePlan(r, s, e, pl, params)
		})
	}
	return p.executePlan(r, s, e, pl, params)
}

// executePlan is Execute without a trace and the audit log.
func (p *Processor) executePlan(r *request.Request, s *Session, e *plancache.Entry[planID, plan], pl *plan,
	params *Params) (*Result, error) {
	if params.Names != nil {
		named := *params
		named.Values, named.Names = pl.values(params), nil
		params = &named
	}
	if len(params.Values) != len(pl.markers) {
		return nil, invalid.Errorf("there were %d markers(?) in CQL but %d bound variables", len(pl.markers),
			len(params.Values))
	}
	// In version 5, the request contains the id of the metadata, which setMetadata compares instead.
	if s.Version < 5 && params.SkipMetadata && !e.Knows(pl.resultID()) {
		// The client knows the columns from before an ALTER, and some drivers ignore new metadata in the response. As
		// in Cassandra, the client must prepare the statement again.
		return nil, &invalid.Unprepared{ID: append([]byte(nil), e.Key[:]...)}
	}
	result, err := p.run(r, s, pl, params)
	if err == nil && s.Version < 5 && e.Changed {
		result.NoMetadata = false // other clients may still know older columns
	}
	return result, err
}

// authorize returns an error if the client may not execute a plan. It reports pl.refused only to clients with the
// permissions, because that error reveals the existence of schema objects.
func (p *Processor) authorize(r *request.Request, pl *plan) error {
	needs := pl.needs
	if !pl.isData() { // the required permissions depend on the current schema
		var err error
		if needs, err = permissions.Required(p.services.View.Schema(), pl.keyspace, pl.stmt); err != nil {
			return definitionError(err)
		}
		if err := permissions.Protected(needs); err != nil {
			return definitionError(err)
		}
	}
	// The first missing permission is the error.
	for _, need := range needs {
		if pl.readsTraces(need) {
			continue // the Reader checks which rows the client may read
		}
		if err := p.services.Executor.Authorize(r, need); err != nil {
			return err
		}
	}
	if pl.refused != nil {
		return pl.refused
	}
	return execution.CheckClientLevel(r.Consistency, p.o.NodeLocal)
}

// run executes a plan. It checks the permissions at each execution, because they may change after a statement was
// prepared. pl must be valid for a recent schema. The number of values was checked by the caller.
func (p *Processor) run(r *request.Request, s *Session, pl *plan, params *Params) (*Result, error) {
	if err := p.authorize(r, pl); err != nil {
		return nil, err
	}
	switch {
	case pl.modification != nil:
		return p.writeResult(p.writer.Execute(r, pl.modification, params))
	case pl.selectPlan != nil:
		rows, err := p.reader.Execute(r, pl.selectPlan, params)
		if err != nil {
			return nil, err
		}
		return p.readResult(&rows, pl.metadata, s, params), nil
	case pl.explain != nil:
		rows, err := p.reader.Explain(r, pl.explain, params)
		if err != nil {
			return nil, err
		}
		return p.readResult(&rows, pl.metadata, s, params), nil
	case pl.batch != nil:
		return p.writeResult(p.writer.ExecuteBatch(r, pl.batch, params))
	}
	// A prepared definition refers to the keyspace in which it was prepared.
	if pl.keyspace != s.Keyspace {
		in := *s
		in.Keyspace = pl.keyspace
		s = &in
	}
	// The remaining statements are executed from their syntax tree.
	switch stmt := pl.stmt.(type) {
	// The server changes the session after it receives the result.
	case *cql.Use:
		if p.services.View.Schema().Keyspace(stmt.Keyspace) == nil {
			return nil, invalid.Errorf("Keyspace '%s' does not exist", stmt.Keyspace)
		}
		return &Result{Kind: KindSetKeyspace, Keyspace: stmt.Keyspace}, nil
	case *cql.Describe:
		return p.describe(s, stmt, params)
	case *cql.Truncate:
		return p.executeTruncate(r, pl, stmt, params)
	}
	if p.o.Roles != nil && roles.Handles(pl.stmt) {
		return p.executeRoles(r, s, pl.stmt)
	}
	return p.executeDefinition(r, s, pl.stmt)
}
