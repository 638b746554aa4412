package read

import (
	"slices"
	"sync/atomic"

	"cqld/cql"
	"cqld/query/execution"
	"cqld/query/fragments"
	"cqld/query/invalid"
	"cqld/query/mask"
	"cqld/query/restriction"
	"cqld/query/selection"
	"cqld/query/term"
	"cqld/schema"
	"cqld/types"
)

// Plan is the plan of a SELECT. It is immutable after compilation, except for bytes, and is shared by all executions
// of the prepared statement. It refers to the versions of the table and its types with which it was compiled; a
// change of the schema makes the plan invalid, and the caller compiles it again.
type Plan struct {
	// table is the table of the SELECT. For MUTATION_FRAGMENTS it is the derived table; fragments has the base table.
	table *schema.Table
	// where is the compiled WHERE. It is not nil, even for a statement without WHERE.
	where *restriction.Set
	// selection is the select clause: its columns, selectors and aggregates.
	selection *selection.Selection
	distinct  bool
	groups    []selection.Selector // the elements of GROUP BY; each partition begins a new group
	grouped   bool                 // the statement has GROUP BY
	// reversed means that ORDER BY reverses the clustering order, so the scan reads partitions from their end.
	reversed bool
	order    []orderColumn    // set if rows must be sorted in memory
	sorted   bool             // the order differs from the clustering order
	hashed   []*schema.Column // columns of a GROUP BY whose groups span partitions
	// The values of LIMIT, OFFSET, USING TIMEOUT and PER PARTITION LIMIT; nil means that the statement does not have
	// the clause.
	limit        term.Term
	offset       term.Term
	timeout      term.Term
	perPartition term.Term
	// staticCounts means that a partition with only a static row is a row of the result, with null in the other
	// columns.
	staticCounts bool
	single       bool     // one partition, at most one row
	oneKey       bool     // one partition, whose key is built without lists
	near         *nearest // set for ORDER BY ANN OF
	// masking determines the masks for a client, and whether the client may execute the statement.
	masking   *mask.Decision
	fragments *fragments.Shape // set for MUTATION_FRAGMENTS

	// allowFiltering means that the statement contains ALLOW FILTERING, even if not required. A guardrail can disable
	// it.
	allowFiltering bool

	bytes atomic.Int64 // size of a recent page, for firstBytes
}

// firstBytes returns the page size, in bytes, of the first command: twice the size of a recent result, so that most
// SELECTs need one command. It is 0 before the first execution.
func (p *Plan) firstBytes() int { return int(2 * p.bytes.Load()) }

// observe records the size of a result. A smaller size than before only lowers the estimate by an eighth of the
// difference. Concurrent executions may overwrite each other's values, which is harmless: the value is a hint.
func (p *Plan) observe(n int) {
	size := int64(n)
	if was := p.bytes.Load(); size < was {
		// Shrink slowly, because a page that is too small costs another command.
		size = was - (was-size)/8
	} else if size == was {
		// In the usual case, the size is equal; do not write to the shared cache line.
		return
	}
	p.bytes.Store(size)
}

// Columns returns the columns of the result.
func (p *Plan) Columns() []term.Spec { return p.selection.Columns }

// aggregates reports whether rows are combined.
func (p *Plan) aggregates() bool { return p.grouped || len(p.selection.Aggregates) > 0 }

// statement compiles a SELECT. Of several errors, the client receives the first; the order of the steps follows
// Cassandra for clauses that Cassandra has.
func (c *compiler) statement(stmt *cql.Select) (*Plan, error) {
	p := &Plan{table: c.Table, distinct: stmt.Distinct, allowFiltering: stmt.AllowFiltering}
	if stmt.Fragments {
		if err := c.enterFragments(p, stmt); err != nil {
			return nil, err
		}
	}
	if err := c.where(p, stmt); err != nil {
		// DISTINCT is checked after WHERE, because the restricted columns determine which columns DISTINCT may
		// select.
		return nil, err
	}
	if p.distinct {
		if err := p.checkDistinct(stmt); err != nil {
			return nil, err
		}
	}
	// An error of groupBy is not final: hashGroups may accept the statement with ALLOW FILTERING.
	if err := p.hashGroups(stmt, c.groupBy(p, stmt.GroupBy)); err != nil {
		return nil, err
	}
	if len(p.selection.Aggregates) > 0 && !p.grouped && stmt.PerPartitionLimit != nil {
		return nil, invalid.Errorf("PER PARTITION LIMIT is not allowed with aggregate queries.")
	}
	if err := c.order(p, stmt); err != nil {
		return nil, err
	}
	if err := c.limits(p, stmt); err != nil {
		return nil, err
	}
	if p.fragments == nil {
		// Masked columns in WHERE and ORDER BY count as restricted, because the selection and order of rows reveal
		// their values. For MUTATION_FRAGMENTS, enterFragments has created the Decision.
		p.masking = mask.NewDecision(mask.Compile(c.Compiler, c.Table), c.Table,
			append(p.where.Columns(), p.sortedColumns()...))
	}
	// Without a restriction on rows, a partition with only static columns is a row of the result.
	p.staticCounts = !p.where.HasClustering() && !p.where.HasRegular()
	// One row needs no sort, no filter and no page. An aggregate of one row still needs its accumulators.
	p.single, p.oneKey = p.where.SingleRow() && !p.aggregates(), p.where.OneKey()
	return p, nil
}

// where compiles ORDER BY with ANN OF, WHERE and the select clause. The order of errors is Cassandra's: the select
// clause is compiled after WHERE. Its columns and functions are resolved before, because WHERE depends on whether
// only static columns are selected.
func (c *compiler) where(p *Plan, stmt *cql.Select) error {
	onlyStatic, err := selection.OnlyStatic(c.Compiler, stmt)
	if err != nil {
		return err
	}
	if p.near, err = c.orderings(stmt.OrderBy); err != nil {
		return err
	}
	o := restriction.Options{Statement: restriction.Select, OnlyStatic: onlyStatic, AllowFiltering: stmt.AllowFiltering}
	// The two callbacks report errors of ANN OF in Cassandra's order among the errors of WHERE.
	o.AfterRelations = func(where *restriction.Set) error {
		if p.near == nil {
			return nil
		}
		return c.orderByNearest(where, p.near, stmt.OrderBy)
	}
	o.BeforeOthers = func(where *restriction.Set) error {
		if p.near != nil {
			return p.near.check(where)
		}
		return c.checkVectors(stmt.Where)
	}
	// p.where is complete only when Compile returns; the callbacks see a partial Set.
	if p.where, err = restriction.Compile(c.Compiler, stmt.Where, o); err != nil {
		return err
	}
	p.selection, err = selection.Compile(c.Compiler, stmt)
	return err
}

// order compiles ORDER BY, and refuses a statement that needs ALLOW FILTERING. ALLOW FILTERING is checked last: the
// error of an impossible ORDER BY comes first.
func (c *compiler) order(p *Plan, stmt *cql.Select) error {
	if p.near != nil {
		return p.checkNearest(stmt)
	}
	if err := c.orderBy(p, stmt); err != nil {
		return err
	}
	return p.where.CheckFiltering(stmt.AllowFiltering)
}

// limits compiles LIMIT, OFFSET, PER PARTITION LIMIT and USING TIMEOUT.
func (c *compiler) limits(p *Plan, stmt *cql.Select) (err error) {
	// The names in brackets are the names of the markers in the metadata of a prepared statement, as in Cassandra.
	for _, l := range []struct {
		value cql.Term
		name  string
		into  *term.Term
	}{{stmt.Limit, "[limit]", &p.limit}, {stmt.Offset, "[offset]", &p.offset},
		{stmt.PerPartitionLimit, "[per_partition_limit]", &p.perPartition}} {
		if l.value == nil {
			continue
		}
		if *l.into, err = c.Term(l.value, c.Receiver(l.name, types.Native(types.Int))); err != nil {
			return err
		}
	}
	if p.near != nil && p.offset != nil {
		return invalid.Errorf("OFFSET is not supported with ORDER BY … ANN OF")
	}
	p.timeout, err = execution.CompileTimeout(c.Compiler, stmt.Timeout)
	return err
}

// checkDistinct rejects clauses that cannot be combined with DISTINCT. DISTINCT returns one row for each partition,
// from its key and its static columns. Clauses that depend on other rows are therefore invalid.
func (p *Plan) checkDistinct(stmt *cql.Select) error {
	if stmt.PerPartitionLimit != nil {
		return invalid.Errorf("PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries")
	}
	nearest := p.near != nil && p.near.col.Kind != schema.Static
	if p.where.HasClustering() || p.where.HasRegular() || p.where.FiltersRows() || nearest {
		return invalid.Errorf("SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or " +
			"static columns.")
	}
	// SELECT DISTINCT * requests all columns, so it fails for tables with clustering or regular columns.
	requested := p.table.Columns()
	if len(stmt.Columns) > 0 {
		requested = nil
		for _, sc := range stmt.Columns {
			requested = appendColumns(requested, p.table, sc.Selector)
		}
	}
	for _, o := range stmt.OrderBy {
		if col := p.table.Column(o.Column); col != nil && p.where.KeyLists {
			// ORDER BY sorts rows of several partitions by this column, so it must be read.
			requested = append(slices.Clip(requested), col)
		}
	}
	for _, col := range requested {
		if col.Kind != schema.PartitionKey && col.Kind != schema.Static {
			return invalid.Errorf("SELECT DISTINCT queries must only request partition key columns and/or static "+
				"columns (not %s)", col.Name)
		}
	}
	// If = or IN selects the partitions, the key need not be selected.
	if !p.where.KeyRange {
		return nil
	}
	for _, col := range p.table.PartitionKey {
		if !slices.Contains(requested, col) {
			return invalid.Errorf("SELECT DISTINCT queries must request all the partition key columns (missing %s)",
				col.Name)
		}
	}
	return nil
}

// appendColumns appends the columns that a selector names. Unknown names are omitted: the compilation of the select
// clause reports them.
func appendColumns(dst []*schema.Column, t *schema.Table, x cql.Selector) []*schema.Column {
	cql.WalkColumns(x, func(name string) {
		if col := t.Column(name); col != nil {
			dst = append(dst, col)
		}
	})
	return dst
}
