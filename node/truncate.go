package node

import (
	"context"
	"slices"
	"time"

	"cqld/internal/env"
	"cqld/schema"
)

// truncations executes TRUNCATE for statements of this node.
type truncations struct{ node *Node }

const (
	// builtPause is the first pause between two questions for the indexes that are not built; it doubles up to
	// builtPauseMax.
	builtPause    = 5 * time.Millisecond
	builtPauseMax = 200 * time.Millisecond
)

// TruncateTable implements query.Truncater. The indexes have new numbers, and are built at once, because the table is
// empty. The statement waits for that: the next one of its client may search by them.
func (t truncations) TruncateTable(ctx context.Context, c *schema.TruncateTable) error {
	if err := t.node.cluster.ProposeSchema(ctx, c); err != nil {
		return err
	}
	numbers := indexNumbers(t.node.cluster.Metadata().Schema.Table(c.Keyspace, c.Table))
	pause := builtPause
	for len(numbers) > 0 && !t.built(numbers) {
		if !env.Pause(t.node.clock, pause, ctx.Done(), t.node.stopping) || ctx.Err() != nil {
			break // the rows are truncated; searches report an index that is not built
		}
		pause = min(2*pause, builtPauseMax)
	}
	return nil
}

// built reports whether all live nodes have built the indexes and views with these numbers.
func (t truncations) built(numbers []schema.StorageID) bool {
	unbuilt := t.node.commands.Peers.Unbuilt()
	for _, n := range t.node.cluster.Metadata().Topology.Nodes() {
		list, answered := unbuilt[n.ID]
		if !answered && t.node.cluster.Alive(n.ID) ||
			slices.ContainsFunc(list, func(id schema.StorageID) bool { return slices.Contains(numbers, id) }) {
			return false
		}
	}
	return true
}

// indexNumbers returns the numbers of the indexes and views of a table; nil means that it was dropped.
func indexNumbers(t *schema.Table) (numbers []schema.StorageID) {
	if t == nil {
		return nil
	}
	for _, ix := range t.Indexes() {
		numbers = append(numbers, ix.ID)
	}
	for _, v := range t.Views() {
		numbers = append(numbers, v.StorageID)
	}
	return numbers
}
