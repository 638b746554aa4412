package query

import (
	"crypto/md5" //nolint:gosec // Cassandra's prepared ids are MD5
	"slices"
	"sync/atomic"

	"cqld/auth"
	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/execution"
	"cqld/query/function"
	"cqld/query/invalid"
	"cqld/query/permissions"
	"cqld/query/read"
	"cqld/query/term"
	"cqld/query/write"
	"cqld/schema"
	"cqld/types"
)

// plan is a statement compiled for a schema. It is immutable, except that it caches the newest schema for which it is
// valid. Executions share it. Its tables and functions are identified by pointers into the schema: an object that did
// not change has the same pointer in later schemas.
type plan struct {
	text     string
	keyspace string // for unqualified names
	stmt     cql.Statement

	// needs contains the permissions for a data statement. For other statements, authorize computes them at each
	// execution.
	needs   []auth.Requirement // permissions
	refused error              // error if no client may execute the statement; reported only after the permission check

	// Exactly one of these is set for a data statement.
	modification *write.Modification
	selectPlan   *read.Plan
	batch        *write.Batch
	explain      *read.Explain

	timeout term.Term // USING TIMEOUT of a TRUNCATE, or nil

	metadata *Metadata // describes the rows of the result; nil if there are none
	// markers contains the bind markers by index.
	markers []term.Marker
	// partitionKey contains the index of each partition key column's marker; nil if a column has no marker.
	partitionKey []uint16
	// tables contains the tables that the statement names, with duplicates in a batch.
	tables []*schema.Table
	calls  []*schema.Keyspace // keyspaces whose user-defined functions the statement calls
	types  []usedType         // user-defined types in casts and type hints
	// the newest schema in which all tables, called functions and named types were the same
	seen atomic.Pointer[schema.Schema]
}

// isData reports whether the statement reads or writes rows; other statements are executed from their AST.
func (pl *plan) isData() bool {
	return pl.modification != nil || pl.selectPlan != nil || pl.batch != nil || pl.explain != nil
}

// valid reports whether the plan is valid for s. It is called for each execution, so the usual case is one comparison
// of pointers.
func (pl *plan) valid(s *schema.Schema) bool {
	// In the usual case, the schema has not changed since the previous execution.
	if pl.seen.Load() == s {
		return true
	}
	for _, t := range pl.tables {
		if s.Table(t.Keyspace, t.Name) != t {
			return false
		}
	}
	if pl.callsOthers(s) || slices.ContainsFunc(pl.types, func(u usedType) bool { return u.in(s) != u.version }) {
		return false
	}
	// A concurrent call may store a different schema, for which the plan is valid as well.
	pl.seen.Store(s)
	return true
}

// usedType is a version of a user-defined type. A change of the type, or of a field's type, creates a new version.
type usedType struct {
	keyspace, name string
	version        *types.Type
}

// in returns the version of the type in s, nil if it was dropped.
func (u usedType) in(s *schema.Schema) *types.Type {
	k := s.Keyspace(u.keyspace)
	if k == nil {
		return nil
	}
	return k.Type(u.name)
}

// callsOthers reports whether functions have changed in s in a keyspace from which the plan calls functions. It
// reports true for a change of any function in that keyspace, because another overload may now match better.
func (pl *plan) callsOthers(s *schema.Schema) bool {
	return slices.ContainsFunc(pl.calls, func(k *schema.Keyspace) bool {
		now := s.Keyspace(k.Name)
		return now == nil || !now.SameFunctions(k)
	})
}

// outdated reports whether a table of the plan was dropped in s, or has other columns, or whether user-defined
// functions have changed. After other changes, for example of an option or an index, the node compiles a new plan,
// and clients need not prepare the statement again.
func (pl *plan) outdated(s *schema.Schema) bool {
	for _, t := range pl.tables {
		now := s.Table(t.Keyspace, t.Name)
		// A table that was dropped and created again has another id. TRUNCATE changes the storage id only.
		if now == nil || now.ID != t.ID || !slices.EqualFunc(t.Columns(), now.Columns(), sameColumn) {
			return true
		}
	}
	return pl.callsOthers(s)
}

// sameColumn reports whether clients can use a column as before: same name, kind and type. The id distinguishes a
// column that was dropped and created again.
func sameColumn(a, b *schema.Column) bool {
	return a.ID == b.ID && a.Name == b.Name && a.Kind == b.Kind && a.Type.Equal(b.Type) &&
		a.Type.MarshalClass() == b.Type.MarshalClass()
}

// resultID returns the id of the metadata of the statement's rows, or nil.
func (pl *plan) resultID() []byte {
	if m := pl.metadata; m != nil {
		return m.ID
	}
	return nil
}

// table returns the table that a data statement names. keyspace is the keyspace of unqualified names; empty means
// none. Error messages are Cassandra's.
func (p *Processor) table(s *schema.Schema, keyspace string, n cql.QualifiedName) (*schema.Table, error) {
	if n.Keyspace != "" {
		keyspace = n.Keyspace
	}
	if keyspace == "" {
		return nil, invalid.Errorf("No keyspace has been specified. USE a keyspace, or explicitly specify " +
			"keyspace.tablename")
	}
	k := s.Keyspace(keyspace)
	if k == nil {
		return nil, invalid.Errorf("keyspace %s does not exist", keyspace)
	}
	t := k.Table(n.Name)
	if t == nil {
		return nil, invalid.Errorf("table %s does not exist", n.Name)
	}
	return t, nil
}

// compiler compiles one statement into a plan. It is used by one goroutine, and discarded with the compilation.
type compiler struct {
	term.Compiler
	p    *Processor
	plan *plan
}

// compile compiles a parsed statement. A statement that is executed from its syntax tree has a plan without tables.
// An error means that the statement is invalid for s.
func (p *Processor) compile(s *schema.Schema, keyspace, text string, stmt cql.Statement) (*plan, error) {
	pl := &plan{text: text, keyspace: keyspace, stmt: stmt}
	c := &compiler{p: p, plan: pl, Compiler: term.Compiler{
		Schema: s, Functions: p.functions, UserFunctions: p.functionsFor(pl), ResolveType: resolverFor(pl),
		Keyspace: keyspace,
	}}
	var err error
	if pl.needs, err = permissions.Required(s, keyspace, stmt); err != nil {
		return nil, definitionError(err)
	}
	switch stmt := stmt.(type) {
	case *cql.Select:
		err = c.read(stmt)
	case *cql.Explain:
		err = c.explain(stmt)
	case *cql.Insert, *cql.InsertJSON, *cql.Update, *cql.Delete:
		pl.modification, err = c.modification(stmt)
	case *cql.Batch:
		pl.batch, err = write.CompileBatch(&c.Compiler, stmt, c.modification)
	case *cql.Truncate:
		err = c.truncate(stmt)
	// Other statements are executed from their syntax tree.
	default:
		return pl, nil
	}
	if err != nil {
		return nil, err
	}
	// EXECUTE is required on user-defined functions, which are known only after their calls are resolved.
	pl.needs = append(pl.needs, permissions.Execute(c.Called)...)
	if len(c.Markers) > markersMax {
		return nil, invalid.Errorf("Too many markers(?). %d markers exceed the allowed maximum of %d", len(c.Markers),
			markersMax)
	}
	pl.markers = c.Markers
	// Statements of a batch on several tables have no common partition key.
	if len(pl.tables) > 0 && !slices.ContainsFunc(pl.tables, func(t *schema.Table) bool { return t != pl.tables[0] }) {
		pl.partitionKey = term.PartitionKeyMarkers(pl.tables[0], c.Markers)
	}
	pl.seen.Store(s)
	return pl, nil
}

// functionsFor returns a function that looks up user-defined functions by name and records their keyspace in pl.
func (p *Processor) functionsFor(pl *plan) func(*schema.Keyspace, string) []*function.Function {
	return func(k *schema.Keyspace, name string) []*function.Function {
		found := p.userFunctions.Named(k, name)
		if len(found) > 0 && !slices.Contains(pl.calls, k) {
			pl.calls = append(pl.calls, k)
		}
		return found
	}
}

// resolverFor returns a function that resolves the types that a statement names and records user-defined types in pl.
func resolverFor(pl *plan) func(*schema.Keyspace, string, *cql.TypeExpr) (*types.Type, error) {
	var note func(*schema.Keyspace, *types.Type)
	note = func(k *schema.Keyspace, t *types.Type) {
		// The version of a type contains the versions of its fields' types.
		if t.Kind() == types.UDT {
			pl.types = append(pl.types, usedType{k.Name, t.UDTName(), k.Type(t.UDTName())})
			return
		}
		for _, e := range t.Elems() {
			note(k, e)
		}
	}
	return func(k *schema.Keyspace, keyspace string, e *cql.TypeExpr) (*types.Type, error) {
		t, err := resolveType(k, keyspace, e)
		// Without a keyspace there are no user-defined types.
		if err == nil && k != nil {
			note(k, t)
		}
		return t, err
	}
}

// enter sets the table and the keyspace of the compiler for a statement. The keyspace of one statement of a batch does
// not apply to the names in the next. Compiling another statement of the batch calls it again.
func (c *compiler) enter(n cql.QualifiedName) error {
	t, err := c.p.table(c.Schema, c.plan.keyspace, n)
	if err != nil {
		return err
	}
	c.Table, c.Keyspace = t, t.Keyspace
	c.plan.tables = append(c.plan.tables, t)
	return nil
}

// truncate compiles USING TIMEOUT. A TRUNCATE without one is not compiled: it may be prepared before its table exists.
func (c *compiler) truncate(stmt *cql.Truncate) (err error) {
	if stmt.Timeout == nil {
		return nil
	}
	if err = c.enter(stmt.Table); err == nil {
		c.plan.timeout, err = execution.CompileTimeout(&c.Compiler, stmt.Timeout)
	}
	return err
}

// read compiles a SELECT and its metadata.
func (c *compiler) read(stmt *cql.Select) (err error) {
	if err = c.enter(stmt.Table); err != nil {
		return err
	}
	if c.plan.selectPlan, err = c.p.reader.Compile(&c.Compiler, stmt); err == nil {
		c.plan.metadata = newMetadata(c.plan.selectPlan.Columns())
	}
	return err
}

// explain compiles an EXPLAIN, whose result has its own columns.
func (c *compiler) explain(stmt *cql.Explain) (err error) {
	if err = c.enter(stmt.Select.Table); err != nil {
		return err
	}
	if c.plan.explain, err = c.p.reader.CompileExplain(&c.Compiler, stmt); err == nil {
		c.plan.metadata = newMetadata(c.plan.explain.Columns())
	}
	return err
}

// modification compiles an INSERT, UPDATE or DELETE, alone or in a batch. pl.refused keeps the first error of a batch
// for authorize.
func (c *compiler) modification(stmt cql.Statement) (*write.Modification, error) {
	n, ok := written(stmt)
	if !ok {
		return nil, invalid.Errorf("Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.")
	}
	if err := c.enter(n); err != nil {
		return nil, err
	}
	// Markers of all statements of a batch are in one list.
	m, err := c.p.writer.Compile(&c.Compiler, stmt)
	if err == nil && c.plan.refused == nil {
		c.plan.refused = m.Refused
	}
	return m, err
}

// written returns the table that an INSERT, UPDATE or DELETE names. ok is false for other statements.
func written(stmt cql.Statement) (n cql.QualifiedName, ok bool) {
	switch stmt := stmt.(type) {
	case *cql.Insert:
		return stmt.Table, true
	case *cql.InsertJSON:
		return stmt.Table, true
	case *cql.Update:
		return stmt.Table, true
	case *cql.Delete:
		return stmt.Table, true
	}
	return n, false
}

// binds returns the bind markers for the result of PREPARE.
func (pl *plan) binds() []Column {
	out := make([]Column, len(pl.markers))
	for i, m := range pl.markers {
		out[i] = m.Spec
	}
	return out
}

// values returns the values of a request in the order of the markers. Named values are matched with the markers of
// their names; if a name is missing, the result is too short, and the caller reports the error.
func (pl *plan) values(params *Params) []wire.Value {
	// Values by position, the usual case.
	if params.Names == nil {
		return params.Values
	}
	// A request may contain 65,535 names and markers, so comparing each pair would be too slow.
	named := make(map[string]wire.Value, len(params.Names))
	for i, n := range params.Names {
		if _, ok := named[n]; !ok { // the first value of a name takes precedence
			named[n] = params.Values[i]
		}
	}
	out := make([]wire.Value, 0, len(pl.markers))
	for _, m := range pl.markers {
		if v, ok := named[m.Spec.Name]; ok {
			out = append(out, v)
		}
	}
	return out
}

// planID identifies a prepared statement. It is the MD5 hash that clients send with EXECUTE.
type planID [16]byte

// planText identifies a statement by its text and the keyspace of its unqualified names. Equal texts in different
// keyspaces have different plans.
type planText struct{ Keyspace, Text string }

// preparedID returns the id of a prepared statement, which is the same on every node. Cassandra computes it in the same
// way, so drivers recognize it across nodes.
func preparedID(keyspace, text string) planID {
	b := make([]byte, 0, 256)
	b = append(b, keyspace...)
	return md5.Sum(append(b, text...)) //nolint:gosec // an identifier, not a secret
}

// fullyQualified reports whether every table in a statement is named with its keyspace. The id of such a statement does
// not depend on the keyspace in use.
func fullyQualified(stmt cql.Statement) bool {
	switch stmt := stmt.(type) {
	case *cql.Select:
		return stmt.Table.Keyspace != ""
	case *cql.Explain:
		return stmt.Select.Table.Keyspace != ""
	// A batch is qualified if all of its statements are.
	case *cql.Batch:
		for _, s := range stmt.Statements {
			if !fullyQualified(s) {
				return false
			}
		}
		return true
	}
	n, ok := written(stmt)
	return ok && n.Keyspace != ""
}
