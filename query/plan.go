package query

import (
	"crypto/md5" //nolint:gosec // Cassandra's prepared ids are MD5
	"slices"
	"sync/atomic"

	"cqld/auth"
	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/function"
	"cqld/query/permissions"
	"cqld/query/term"
	"cqld/schema"
)

// plan is a statement compiled for a schema. It is immutable, except that it caches the newest schema for which it is
// valid.
type plan struct {
	text     string
	keyspace string // for unqualified names
	stmt     cql.Statement

	needs   []auth.Requirement // what an execution needs
	refused error              // why no client may execute the statement, but only those with the permissions are told

	// One of these is set for a data statement.
	modification *modification
	selectPlan   *selectPlan
	batch        *batchPlan
	explain      *explainPlan

	markers      []term.Marker
	partitionKey []uint16
	tables       []*schema.Table
	calls        []*schema.Keyspace            // whose functions the statement calls
	seen         atomic.Pointer[schema.Schema] // the newest schema in which all tables and called functions were the same
}

// isData reports whether the statement reads or writes rows; other statements are executed from their AST.
func (pl *plan) isData() bool {
	return pl.modification != nil || pl.selectPlan != nil || pl.batch != nil || pl.explain != nil
}

// valid reports whether the plan is valid for s.
func (pl *plan) valid(s *schema.Schema) bool {
	if pl.seen.Load() == s {
		return true
	}
	for _, t := range pl.tables {
		if s.Table(t.Keyspace, t.Name) != t {
			return false
		}
	}
	if pl.callsOthers(s) {
		return false
	}
	pl.seen.Store(s)
	return true
}

// callsOthers reports whether s has other functions in a keyspace with functions that the plan calls.
func (pl *plan) callsOthers(s *schema.Schema) bool {
	return slices.ContainsFunc(pl.calls, func(k *schema.Keyspace) bool {
		now := s.Keyspace(k.Name)
		return now == nil || !now.SameFunctions(k)
	})
}

// outdated reports whether a table of the plan was dropped in s, or has other columns, or whether functions of users have changed.
func (pl *plan) outdated(s *schema.Schema) bool {
	for _, t := range pl.tables {
		now := s.Table(t.Keyspace, t.Name)
		if now == nil || now.StorageID != t.StorageID || !slices.EqualFunc(t.Columns(), now.Columns(), sameColumn) {
			return true
		}
	}
	return pl.callsOthers(s)
}

func sameColumn(a, b *schema.Column) bool {
	return a.ID == b.ID && a.Name == b.Name && a.Kind == b.Kind && a.Type.Equal(b.Type) && a.Type.MarshalClass() == b.Type.MarshalClass()
}

// metadata returns the metadata of the statement's rows, or nil.
func (pl *plan) metadata() *Metadata {
	if pl.selectPlan != nil {
		return pl.selectPlan.metadata
	}
	if pl.explain != nil {
		return pl.explain.metadata
	}
	return nil
}

// resultID returns the id of the metadata of the statement's rows, or nil.
func (pl *plan) resultID() []byte {
	if m := pl.metadata(); m != nil {
		return m.ID
	}
	return nil
}

// table returns the table that a data statement names.
func (p *Processor) table(s *schema.Schema, keyspace string, n cql.QualifiedName) (*schema.Table, error) {
	if n.Keyspace != "" {
		keyspace = n.Keyspace
	}
	if keyspace == "" {
		return nil, invalidf("No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename")
	}
	k := s.Keyspace(keyspace)
	if k == nil {
		return nil, invalidf("keyspace %s does not exist", keyspace)
	}
	t := k.Table(n.Name)
	if t == nil {
		return nil, invalidf("table %s does not exist", n.Name)
	}
	return t, nil
}

// compiler compiles one statement into a plan.
type compiler struct {
	term.Compiler
	p       *Processor
	refused error // see plan
}

// compile compiles a parsed statement.
func (p *Processor) compile(s *schema.Schema, keyspace, text string, stmt cql.Statement) (*plan, error) {
	pl := &plan{text: text, keyspace: keyspace, stmt: stmt}
	c := &compiler{p: p, Compiler: term.Compiler{
		Schema: s, Functions: p.functions, UserFunctions: p.functionsFor(pl), ResolveType: resolveType, Keyspace: keyspace,
	}}
	var err error
	if pl.needs, err = permissions.Required(s, keyspace, stmt); err != nil {
		return nil, definitionError(err)
	}
	switch stmt := stmt.(type) {
	case *cql.Select:
		if err = c.enter(pl, stmt.Table); err == nil {
			pl.selectPlan, err = c.selectStatement(stmt)
		}
	case *cql.Explain:
		if err = c.enter(pl, stmt.Select.Table); err == nil {
			pl.explain, err = c.explain(stmt)
		}
	case *cql.Insert, *cql.InsertJSON, *cql.Update, *cql.Delete:
		pl.modification, err = c.modification(pl, stmt)
	case *cql.Batch:
		pl.batch, err = c.batch(pl, stmt)
	default:
		return pl, nil
	}
	if err != nil {
		return nil, err
	}
	pl.refused = c.refused
	pl.needs = append(pl.needs, permissions.Execute(c.Called)...)
	if len(c.Markers) > markersMax {
		return nil, invalidf("Too many markers(?). %d markers exceed the allowed maximum of %d", len(c.Markers), markersMax)
	}
	pl.markers = c.Markers
	if len(pl.tables) > 0 && !slices.ContainsFunc(pl.tables, func(t *schema.Table) bool { return t != pl.tables[0] }) {
		pl.partitionKey = term.PartitionKeyMarkers(pl.tables[0], c.Markers)
	}
	pl.seen.Store(s)
	return pl, nil
}

// functionsFor returns a function that returns the functions of users with a name, and that notes their keyspace in pl.
func (p *Processor) functionsFor(pl *plan) func(*schema.Keyspace, string) []*function.Function {
	return func(k *schema.Keyspace, name string) []*function.Function {
		found := p.userFunctions.Named(k, name)
		if len(found) > 0 && !slices.Contains(pl.calls, k) {
			pl.calls = append(pl.calls, k)
		}
		return found
	}
}

// enter sets the compiler's table and keyspace to those of the statement. The keyspace of one statement of a batch
// does not apply to the names in the next.
func (c *compiler) enter(pl *plan, n cql.QualifiedName) error {
	t, err := c.p.table(c.Schema, pl.keyspace, n)
	if err != nil {
		return err
	}
	c.Table, c.Keyspace = t, t.Keyspace
	pl.tables = append(pl.tables, t)
	return nil
}

func (c *compiler) modification(pl *plan, stmt cql.Statement) (*modification, error) {
	m, err := c.unconstrained(pl, stmt)
	if err != nil {
		return nil, err
	}
	return m, c.constraints(m)
}

// unconstrained compiles a modification without the constraints of its table.
func (c *compiler) unconstrained(pl *plan, stmt cql.Statement) (*modification, error) {
	switch stmt := stmt.(type) {
	case *cql.Insert:
		if err := c.enter(pl, stmt.Table); err != nil {
			return nil, err
		}
		return c.insert(stmt)
	case *cql.InsertJSON:
		if err := c.enter(pl, stmt.Table); err != nil {
			return nil, err
		}
		return c.insertJSON(stmt)
	case *cql.Update:
		if err := c.enter(pl, stmt.Table); err != nil {
			return nil, err
		}
		return c.update(stmt)
	case *cql.Delete:
		if err := c.enter(pl, stmt.Table); err != nil {
			return nil, err
		}
		return c.delete(stmt)
	}
	return nil, invalidf("Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.")
}

// binds returns the bind markers for the result of PREPARE.
func (pl *plan) binds() []Column {
	out := make([]Column, len(pl.markers))
	for i, m := range pl.markers {
		out[i] = m.Spec
	}
	return out
}

// values returns the values of a request in the order of the markers.
func (pl *plan) values(params *Params) []wire.Value {
	if params.Names == nil {
		return params.Values
	}
	out := make([]wire.Value, 0, len(pl.markers))
	for _, m := range pl.markers {
		for i, n := range params.Names {
			if n == m.Spec.Name {
				out = append(out, params.Values[i])
				break
			}
		}
	}
	return out
}

// preparedID returns the id of a prepared statement, which is the same on every node.
func preparedID(keyspace, text string) [md5.Size]byte {
	b := make([]byte, 0, 256)
	b = append(b, keyspace...)
	return md5.Sum(append(b, text...)) //nolint:gosec // not a secret
}

// fullyQualified reports whether every table in a statement is named with its keyspace.
func fullyQualified(stmt cql.Statement) bool {
	switch stmt := stmt.(type) {
	case *cql.Select:
		return stmt.Table.Keyspace != ""
	case *cql.Explain:
		return stmt.Select.Table.Keyspace != ""
	case *cql.Insert:
		return stmt.Table.Keyspace != ""
	case *cql.InsertJSON:
		return stmt.Table.Keyspace != ""
	case *cql.Update:
		return stmt.Table.Keyspace != ""
	case *cql.Delete:
		return stmt.Table.Keyspace != ""
	case *cql.Batch:
		for _, s := range stmt.Statements {
			if !fullyQualified(s) {
				return false
			}
		}
		return true
	}
	return false
}
