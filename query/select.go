package query

import (
	"slices"

	"cqld/cql"
	"cqld/query/fragments"
	"cqld/query/mask"
	"cqld/query/restriction"
	"cqld/query/selection"
	"cqld/query/term"
	"cqld/schema"
	"cqld/types"
)

// selectPlan is the plan of a SELECT.
type selectPlan struct {
	table        *schema.Table
	where        *restriction.Set
	selection    *selection.Selection
	metadata     *Metadata
	distinct     bool
	groups       []selection.Selector // of GROUP BY; each partition begins a new group
	grouped      bool                 // the statement has GROUP BY
	reversed     bool
	order        []orderColumn    // set if rows must be sorted in memory
	sorted       bool             // in another order than that of the clustering
	hashed       []*schema.Column // of a GROUP BY whose groups span partitions
	limit        term.Term
	offset       term.Term
	timeout      term.Term
	perPartition term.Term
	staticCounts bool
	single       bool     // one partition, at most one row
	near         *nearest // of ANN OF
	masking      *mask.Decision
	fragments    *fragments.Shape // of MUTATION_FRAGMENTS

	allowFiltering bool
}

// orderColumn is an element of ORDER BY.
type orderColumn struct {
	col        *schema.Column
	descending bool
}

// aggregates reports whether rows are combined.
func (p *selectPlan) aggregates() bool { return p.grouped || len(p.selection.Aggregates) > 0 }

func (c *compiler) selectStatement(stmt *cql.Select) (*selectPlan, error) {
	p := &selectPlan{table: c.Table, distinct: stmt.Distinct, allowFiltering: stmt.AllowFiltering}
	if stmt.Fragments {
		if err := c.enterFragments(p, stmt); err != nil {
			return nil, err
		}
	}
	sel, err := selection.Compile(&c.Compiler, stmt)
	if err != nil {
		return nil, err
	}
	p.selection, p.metadata = sel, newMetadata(sel.Columns)
	for _, o := range stmt.OrderBy { // Cassandra resolves these names first
		if _, err := c.Column(o.Column); err != nil {
			return nil, err
		}
	}
	near, err := nearestOrdering(stmt.OrderBy)
	if err != nil {
		return nil, err
	}
	options := restriction.Options{Statement: restriction.Select, OnlyStatic: c.onlyStatic(stmt), AllowFiltering: stmt.AllowFiltering}
	if near != nil {
		p.where, p.near, err = c.nearestWhere(stmt, near, options)
	} else {
		options.BeforeOthers = func() error { return c.checkVectors(stmt.Where) }
		p.where, err = restriction.Compile(&c.Compiler, stmt.Where, options)
	}
	if err != nil {
		return nil, err
	}
	if p.distinct {
		if err := p.checkDistinct(stmt); err != nil {
			return nil, err
		}
	}
	if err := p.hashGroups(stmt, c.groupBy(p, stmt.GroupBy)); err != nil {
		return nil, err
	}
	if len(sel.Aggregates) > 0 && !p.grouped && stmt.PerPartitionLimit != nil {
		return nil, invalidf("PER PARTITION LIMIT is not allowed with aggregate queries.")
	}
	if p.near != nil {
		err = p.checkNearest(stmt)
	} else if err = c.orderBy(p, stmt); err == nil {
		err = p.where.CheckFiltering(stmt.AllowFiltering)
	}
	if err != nil {
		return nil, err
	}
	if err := c.limits(p, stmt); err != nil {
		return nil, err
	}
	if p.fragments == nil {
		p.masking = c.masking(append(p.where.Columns(), p.sortedColumns()...))
	}
	p.staticCounts = !p.where.HasClustering() && !p.where.HasRegular()
	p.single = p.where.SingleRow() && !p.aggregates()
	return p, nil
}

// limits compiles LIMIT, OFFSET, PER PARTITION LIMIT and USING TIMEOUT.
func (c *compiler) limits(p *selectPlan, stmt *cql.Select) (err error) {
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
		return invalidf("OFFSET is not supported with ORDER BY … ANN OF")
	}
	p.timeout, err = c.timeout(stmt.Timeout)
	return err
}

// onlyStatic reports whether a SELECT names only static columns and partition key columns.
func (c *compiler) onlyStatic(stmt *cql.Select) bool {
	static, others := false, len(stmt.Columns) == 0
	for _, sc := range stmt.Columns {
		cql.WalkColumns(sc.Selector, func(name string) {
			switch c.Table.Column(name).Kind {
			case schema.Static:
				static = true
			case schema.PartitionKey:
			default:
				others = true
			}
		})
	}
	return static && !others
}

func (p *selectPlan) checkDistinct(stmt *cql.Select) error {
	if stmt.PerPartitionLimit != nil {
		return invalidf("PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries")
	}
	if p.where.HasClustering() || p.where.HasRegular() || p.where.FiltersRows() {
		return invalidf("SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or static columns.")
	}
	requested := p.table.Columns()
	if len(stmt.Columns) > 0 {
		requested = nil
		for _, sc := range stmt.Columns {
			requested = appendColumns(requested, p.table, sc.Selector)
		}
	}
	for _, o := range stmt.OrderBy {
		if col := p.table.Column(o.Column); col != nil && p.where.KeyLists {
			requested = append(slices.Clip(requested), col)
		}
	}
	for _, col := range requested {
		if col.Kind != schema.PartitionKey && col.Kind != schema.Static {
			return invalidf("SELECT DISTINCT queries must only request partition key columns and/or static columns (not %s)", col.Name)
		}
	}
	// A partition that is selected by = need not be shown.
	if !p.where.KeyRange {
		return nil
	}
	for _, col := range p.table.PartitionKey {
		if !slices.Contains(requested, col) {
			return invalidf("SELECT DISTINCT queries must request all the partition key columns (missing %s)", col.Name)
		}
	}
	return nil
}

// appendColumns appends the columns that a selector names.
func appendColumns(dst []*schema.Column, t *schema.Table, x cql.Selector) []*schema.Column {
	cql.WalkColumns(x, func(name string) {
		if col := t.Column(name); col != nil {
			dst = append(dst, col)
		}
	})
	return dst
}

const groupByOrder = "Group by currently only support groups of columns following their declared order in the PRIMARY KEY"

// groupBy compiles GROUP BY: columns of the primary key in its order, from which those restricted by = may be
// omitted, and at most one function as the last element.
func (c *compiler) groupBy(p *selectPlan, groups []cql.Selector) error {
	if len(groups) == 0 {
		return nil
	}
	p.grouped = true
	key := slices.Concat(c.Table.PartitionKey, c.Table.Clustering)
	at, ended := 0, false
	for _, g := range groups {
		if ended {
			return invalidf("Functions are only supported on the last element of the GROUP BY clause")
		}
		x, err := selection.CompileOne(&c.Compiler, g)
		if err != nil {
			return err
		}
		var col *schema.Column
		if plain, ok := x.(*selection.Column); ok {
			col = plain.Column
			if col.Kind != schema.PartitionKey && col.Kind != schema.Clustering {
				return invalidf("Group by is currently only supported on the columns of the PRIMARY KEY, got %s", col.Name)
			}
		} else {
			ended = true
			columns := appendColumns(nil, c.Table, g)
			switch {
			case len(columns) == 0:
				return invalidf("GROUP BY functions must have one clustering column name as parameter")
			case len(columns) > 1:
				return invalidf("GROUP BY functions accept only one clustering column as parameter, got: %s", restriction.ColumnNames(columns))
			case columns[0].Kind != schema.Clustering:
				return invalidf("Group by functions are only supported on clustering columns, got %s", columns[0].Name)
			}
			col = columns[0]
		}
		for {
			if at == len(key) {
				return &Invalid{Msg: groupByOrder}
			}
			k := key[at]
			at++
			if k == col {
				break
			}
			if !p.where.EqualTo(k) {
				return &Invalid{Msg: groupByOrder}
			}
		}
		if col.Kind == schema.Clustering {
			if p.distinct {
				return invalidf("Grouping on clustering columns is not allowed for SELECT DISTINCT queries")
			}
			p.groups = append(p.groups, x)
		}
	}
	if at < len(c.Table.PartitionKey) {
		return invalidf("Group by is not supported on only a part of the partition key")
	}
	return nil
}

const orderByDeclared = "Order by currently only supports the ordering of columns following their declared order in the PRIMARY KEY"

func (c *compiler) orderBy(p *selectPlan, stmt *cql.Select) error {
	if len(stmt.OrderBy) == 0 {
		return nil
	}
	var columns []orderColumn
	for _, o := range stmt.OrderBy {
		col, err := c.Column(o.Column)
		if err != nil {
			return err
		}
		columns = append(columns, orderColumn{col, o.Descending})
	}
	if err := p.declaredOrder(columns); err != nil {
		return c.sortedOrder(p, stmt, columns, err)
	}
	if p.where.KeyIn() {
		p.order = columns
	}
	return nil
}

// declaredOrder sets the direction of an ORDER BY in the order of the clustering.
func (p *selectPlan) declaredOrder(columns []orderColumn) error {
	if p.where.UsesIndex() {
		return invalidf("ORDER BY with 2ndary indexes is not supported, except for ANN queries.")
	}
	if p.where.KeyRange {
		return invalidf("ORDER BY is only supported when the partition key is restricted by an EQ or an IN.")
	}
	at := 0
	for i, o := range columns {
		if o.col.Kind != schema.Clustering {
			return invalidf("Order by is currently only supported on the clustered columns of the PRIMARY KEY, got %s", o.col.Name)
		}
		for at != o.col.Position {
			if at >= len(p.table.Clustering) || !p.where.EqualTo(p.table.Clustering[at]) {
				return &Invalid{Msg: orderByDeclared}
			}
			at++
		}
		at++
		reversed := o.descending != o.col.Desc
		if i > 0 && reversed != p.reversed {
			return invalidf("Unsupported order by relation")
		}
		p.reversed = reversed
	}
	return nil
}
