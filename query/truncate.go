package query

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cqld/coordinator"
	"cqld/cql"
	"cqld/query/definition"
	"cqld/query/guardrail"
	"cqld/query/invalid"
	"cqld/request"
	"cqld/ring"
	"cqld/schema"
)

// Truncater empties tables whose rows can be restored.
type Truncater interface {
	// TruncateTable applies the change. It returns when every member of the ring has applied it, also the members that
	// this node considers dead, and when all live nodes can search by the indexes of the table. After an error, the
	// change may still be applied later.
	TruncateTable(ctx context.Context, c *schema.TruncateTable) error
}

// executeTruncate removes all rows of a table on all replicas. It fails if any replica does not answer. The table is
// resolved at execution, since it may be dropped and created again after the statement was prepared.
//
//	drop_grace, all members alive     the rows get another table, which UNDROP TABLE restores (TruncateTable)
//	drop_grace, a member is down      as below, with a warning
//	no drop_grace, or a system table  the replicas remove the rows; a replica that is down makes it unavailable
func (p *Processor) executeTruncate(r *request.Request, pl *plan, stmt *cql.Truncate, params *Params) (*Result, error) {
	params, err := params.WithTimeout(pl.timeout, params.Values)
	if err != nil {
		return nil, err
	}
	keyspace, err := (&definition.Definer{Keyspace: pl.keyspace}).KeyspaceOf(stmt.Table)
	if err == nil {
		err = p.services.Guard(r).Enabled(guardrail.DropTruncateTable)
	}
	if err != nil {
		return nil, definitionError(err)
	}
	// Use the current schema: the table may have changed since the statement was prepared.
	k := p.services.View.Schema().Keyspace(keyspace)
	if k == nil {
		return nil, invalid.Errorf("keyspace %s does not exist", keyspace)
	}
	t := k.Table(stmt.Table.Name)
	if t == nil {
		return nil, invalid.Errorf("table %s does not exist", stmt.Table.Name)
	}
	// The rows of a view derive from its base table and cannot be dropped separately.
	if t.View != nil {
		return nil, invalid.Errorf("Cannot TRUNCATE materialized view directly; must truncate base table instead")
	}
	if t.Virtual || p.services.IsVirtual(t) {
		return nil, invalid.Errorf("Truncation is not supported by table %s.%s", keyspace, t.Name)
	}
	timeout := p.services.TimeoutsOf(params).Truncate
	if c := p.retainedTruncation(t); c != nil {
		if p.allAlive() {
			return p.truncateRetained(r, c, timeout)
		}
		r.Warnings = append(r.Warnings, "The rows cannot be restored with UNDROP TABLE, because a node was down")
	}
	if err := p.services.Executor.Truncate(r, t, timeout); err != nil {
		return nil, err
	}
	return voidResult(), nil
}

// retainedTruncation returns the change that empties a table and retains its rows, or nil if they are not retained.
func (p *Processor) retainedTruncation(t *schema.Table) *schema.TruncateTable {
	if p.o.Truncater == nil {
		return nil
	}
	d := &definition.Definer{NewID: p.newTimeUUID, NowMicros: p.services.Timestamps.Next, DropGrace: p.o.DropGrace}
	return definition.Truncation(d, t)
}

// allAlive reports whether this node considers all members of the ring alive. A member that is down would make a change
// of the schema wait: until it has applied it, it may serve the former rows to clients that reach it.
func (p *Processor) allAlive() bool {
	view := p.services.View
	return !slices.ContainsFunc(view.Topology().Nodes(), func(n *ring.Node) bool {
		return n.ID != view.Self() && !view.Alive(n.ID)
	})
}

// truncateRetained empties a table by a change of the schema. Clients see no change, so that it has no event.
func (p *Processor) truncateRetained(r *request.Request, c *schema.TruncateTable, timeout time.Duration) (*Result,
	error) {
	limited, cancel := p.services.Executor.WithDeadline(r, timeout)
	defer cancel()
	switch err := p.o.Truncater.TruncateTable(limited, c); {
	case err == nil:
		return voidResult(), nil
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &coordinator.TruncateFailure{Cause: fmt.Errorf("not all nodes have confirmed it within %v; "+
			"whether the table was truncated is unknown, and its rows may be among system_views.dropped_tables",
			timeout)}
	default:
		return nil, p.metadataError(err)
	}
}
