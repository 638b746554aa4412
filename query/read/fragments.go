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

// fragmentsMoved is the error for a paging state of MUTATION_FRAGMENTS that another node created.
const fragmentsMoved = "Moving between coordinators is not allowed in SELECT FROM MUTATION_FRAGMENTS() statements: " +
	"read all pages from one node"

// enterFragments replaces the compiler's table by the table that MUTATION_FRAGMENTS derives from it. The rows of the
// derived table are fragments, so WHERE and the select clause need no special code.
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
	// Fragments contain unmasked values. The masks of the base table determine the Decision, and Execute rejects the
	// statement if any mask applies to the client.
	p.masking = mask.NewDecision(mask.Compile(c.Compiler, base), base, masked)
	p.fragments = fragments.NewShape(base)
	p.table = p.fragments.Table
	// From here on, the statement is compiled for the derived table.
	c.Table = p.table
	return nil
}

// fragmentsMasked is the error for a client that may not see all values of a table. Single values cannot be masked,
// as in a SELECT of the table, because a fragment contains cells of all columns.
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
	// The key includes this node's id, so other nodes reject the state.
	return pagingKeys{Cluster: wire.AppendUint64(append([]byte{}, key...), uint64(run.reader.o.View.Self()))}
}
