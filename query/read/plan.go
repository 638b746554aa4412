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

// Plan is the plan of a SELECT. It is immutable after compilation, except for bytes, and is shared by all executions of
// the prepared statement. It holds the versions of the table and of its types that it was compiled with; a change of
// the schema makes the plan invalid, and the caller compiles it again.
type Plan struct {
	// The table that is read. For MUTATION_FRAGMENTS the derived table, whose base is in fragments.
	table *schema.Table
	// WHERE, compiled. Never nil, also for a statement without WHERE.
	where *restriction.Set
	// The select clause: its columns, selectors and aggregates.
	selection *selection.Selection
	distinct  bool
	groups    []selection.Selector // of GROUP BY; each partition begins a new group
	grouped   bool                 // the statement has GROUP BY
	// The scan reads partitions from their end: ORDER BY is the reverse of the table's order.
	reversed bool
	order    []orderColumn    // set if rows must be sorted in memory
	sorted   bool             // in another order than the clustering
	hashed   []*schema.Column // of a GROUP BY whose groups span partitions
	// LIMIT, OFFSET, USING TIMEOUT and PER PARTITION LIMIT. nil means that the statement has none.
	limit        term.Term
	offset       term.Term
	timeout      term.Term
	perPartition term.Term
	// A partition that has only a static row is a row of the result, with null for other columns.
	staticCounts bool
	single       bool     // one partition, at most one row
	oneKey       bool     // one partition, whose key is built without lists
	near         *nearest // of ANN OF
	// Which columns the result depends on, from which the masks for a client are derived.
	masking   *mask.Decision
	fragments *fragments.Shape // of MUTATION_FRAGMENTS

	// ALLOW FILTERING is part of the statement, needed or not. A guardrail can forbid it.
	allowFiltering bool

	bytes atomic.Int64 // of a recent page, for firstBytes
}

// firstBytes returns the size of the first page that is requested: twice the size of a recent result, so that most
// SELECTs send one command. It is 0 before the first execution.
func (p *Plan) firstBytes() int { return int(2 * p.bytes.Load()) }

// observe records the size of a result. A smaller one than the previous ones counts for an eighth. Concurrent
// executions may overwrite each other's values, which is harmless: the value is a hint.
func (p *Plan) observe(n int) {
	size := int64(n)
	if was := p.bytes.Load(); size < was {
		// Slowly down, because a page that is too small costs another command.
		size = was - (was-size)/8
	} else if size == was {
		// An equal size, the usual case, does not write to the shared cache line.
		return
	}
	p.bytes.Store(size)
}

// Columns returns the columns of the result.
func (p *Plan) Columns() []term.Spec { return p.selection.Columns }

// aggregates reports whether rows are combined.
func (p *Plan) aggregates() bool { return p.grouped || len(p.selection.Aggregates) > 0 }

// statement compiles a SELECT. Of several errors, the client receives the one of the first step. The order of the steps
// decides it, and follows Cassandra where both have the clause.
func (c *compiler) statement(stmt *cql.Select) (*Plan, error) {
	p := &Plan{table: c.Table, distinct: stmt.Distinct, allowFiltering: stmt.AllowFiltering}
	if stmt.Fragments {
		if err := c.enterFragments(p, stmt); err != nil {
			return nil, err
		}
	}
	if err := c.where(p, stmt); err != nil {
		// DISTINCT is checked after WHERE, since what it allows depends on the restricted columns.
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
		// Masks of a column in WHERE or ORDER BY matter as well as masks of a selected one: the order and the choice of
		// rows show values. MUTATION_FRAGMENTS has its own decision, made by enterFragments.
		p.masking = mask.NewDecision(mask.Compile(c.Compiler, c.Table), c.Table,
			append(p.where.Columns(), p.sortedColumns()...))
	}
	// Without a restriction on rows, a partition with only static columns is a row of the result.
	p.staticCounts = !p.where.HasClustering() && !p.where.HasRegular()
	// One row needs no sort, no filter and no page. An aggregate of one row still needs its accumulators.
	p.single, p.oneKey = p.where.SingleRow() && !p.aggregates(), p.where.OneKey()
	return p, nil
}

// where compiles ORDER BY with ANN OF, WHERE and the select clause. Errors are in Cassandra's order: the select clause
// is compiled after WHERE, but WHERE depends on whether only static columns are selected, for which the columns and
// functions of the select clause are resolved first.
func (c *compiler) where(p *Plan, stmt *cql.Select) error {
	onlyStatic, err := selection.OnlyStatic(c.Compiler, stmt)
	if err != nil {
		return err
	}
	if p.near, err = c.orderings(stmt.OrderBy); err != nil {
		return err
	}
	o := restriction.Options{Statement: restriction.Select, OnlyStatic: onlyStatic, AllowFiltering: stmt.AllowFiltering}
	// The two callbacks give errors of ANN OF their place among the errors of WHERE.
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
	// The sets of restrictions are complete when Compile returns; the callbacks have seen them half built.
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

// checkDistinct refuses what cannot be combined with DISTINCT. DISTINCT returns one row for each partition, from its
// key and its static columns. Anything that depends on other rows has no meaning for it.
func (p *Plan) checkDistinct(stmt *cql.Select) error {
	if stmt.PerPartitionLimit != nil {
		return invalid.Errorf("PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries")
	}
	nearest := p.near != nil && p.near.col.Kind != schema.Static
	if p.where.HasClustering() || p.where.HasRegular() || p.where.FiltersRows() || nearest {
		return invalid.Errorf("SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or " +
			"static columns.")
	}
	// SELECT DISTINCT * requests all columns, and so fails for tables with other ones.
	requested := p.table.Columns()
	if len(stmt.Columns) > 0 {
		requested = nil
		for _, sc := range stmt.Columns {
			requested = appendColumns(requested, p.table, sc.Selector)
		}
	}
	for _, o := range stmt.OrderBy {
		if col := p.table.Column(o.Column); col != nil && p.where.KeyLists {
			// Rows of several partitions are sorted by it, so it must be read.
			requested = append(slices.Clip(requested), col)
		}
	}
	for _, col := range requested {
		if col.Kind != schema.PartitionKey && col.Kind != schema.Static {
			return invalid.Errorf("SELECT DISTINCT queries must only request partition key columns and/or static "+
				"columns (not %s)", col.Name)
		}
	}
	// A partition that is selected by = need not be shown.
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
