package read

import (
	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/fragments"
	"cqld/query/invalid"
	"cqld/query/mask"
	"cqld/request"
	"cqld/schema"
)

// fragmentsMoved is the error for a paging state of MUTATION_FRAGMENTS that this node did not make.
const fragmentsMoved = "Moving between coordinators is not allowed in SELECT FROM MUTATION_FRAGMENTS() statements: " +
	"read all pages from one node"

// enterFragments sets the compiler's table to the table that MUTATION_FRAGMENTS derives from the one of the statement.
// All later steps see a table whose rows are fragments of one partition's rows, so that WHERE and the select clause
// need no code for it.
func (c *compiler) enterFragments(p *Plan, stmt *cql.Select) error {
	base := c.Table
	switch {
	case c.reader.o.IsVirtual(base):
		return invalid.Errorf("MUTATION_FRAGMENTS is not supported for virtual tables: %s.%s stores no rows",
			base.Keyspace, base.Name)
	case base.View != nil:
		return invalid.Errorf("MUTATION_FRAGMENTS is not supported for materialized views: use the base table of %s.%s",
			base.Keyspace, base.Name)
	case c.reader.o.Stored == nil:
		return invalid.Errorf("This node stores no rows for MUTATION_FRAGMENTS")
	// Fragments have one order, and it cannot be reversed.
	case len(stmt.OrderBy) > 0:
		return &invalid.Error{Msg: fragments.ErrReversed.Error()}
	}
	var masked []*schema.Column // the fragments contain the values of all columns
	for _, col := range base.Columns() {
		if col.Mask != nil {
			masked = append(masked, col)
		}
	}
	// Fragments show stored values before masks apply. The decision is made on the base table, and Execute refuses the
	// statement to a client for which any mask applies.
	p.masking = mask.NewDecision(mask.Compile(c.Compiler, base), base, masked)
	p.fragments = fragments.NewShape(base)
	p.table = p.fragments.Table
	// From here on, the statement is compiled for the derived table.
	c.Table = p.table
	return nil
}

// fragmentsMasked is the error for a client that may not see all values of a table. Unlike a SELECT of the table, the
// values cannot be masked one by one: one fragment contains a cell of any column.
func fragmentsMasked(r *request.Request, shape *fragments.Shape) error {
	return &invalid.Unauthorized{Msg: "User " + r.Principal.Name + " has no UNMASK permission on table " +
		shape.Base.Keyspace + "." +
		shape.Base.Name + ", cannot read its mutation fragments"}
}

// pagingKeys returns the keys of the paging states of the statement. A position in fragments is valid on this node
// only.
func (run *reading) pagingKeys() pagingKeys {
	key := run.reader.pagingKey()
	if run.plan.fragments == nil {
		return pagingKeys{Cluster: key, Shared: run.reader.sharedKey}
	}
	// A key of this node's own: another node then refuses the state.
	return pagingKeys{Cluster: wire.AppendUint64(append([]byte{}, key...), uint64(run.reader.o.View.Self()))}
}
