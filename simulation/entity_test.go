package simulation

import (
	"testing"

	"github.com/anishathalye/porcupine"

	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
)

// TestSimEntities runs the workload of Azure Tables alone.
func TestSimEntities(t *testing.T) {
	runAlone(t, alone(), 50, func(o *Options) { o.Workloads = []string{"entity"} })
}

// TestSimEntitiesNeedPaxos shows that the workload finds ETags that are valid twice: one vote is treated as a majority.
func TestSimEntitiesNeedPaxos(t *testing.T) {
	mustFail(t, 0, 100, func(o *Options) {
		o.Workloads = []string{"entity"}
		o.Unsafe.Paxos.QuorumOne = true
	}, "not linearizable")
}

// TestEntitiesAreJudged passes histories to the checker: invalid ones, and unusual valid ones.
func TestEntitiesAreJudged(t *testing.T) {
	ops := func(ops ...entityOp) entityInput { return entityInput{ops: ops, row: -1} }
	insert := func(row int, version int64) entityOp {
		return entityOp{row: row, kind: entity.Insert, version: version}
	}
	update := func(row int, expect, version int64) entityOp {
		return entityOp{row: row, kind: entity.Update, expect: expect, version: version}
	}
	done := entityOutput{failed: -1}
	refused := func(code odata.Code) entityOutput { return entityOutput{code: code} }
	found := func(rows ...entityRow) entityOutput {
		out := entityOutput{failed: -1}
		copy(out.rows[:], rows)
		return out
	}
	whole := entityInput{row: -1}
	lost := func(in entityInput) *entityCall { return &entityCall{in: in, out: done, returned: -1} }
	for name, c := range map[string]struct {
		may     bool
		history []*entityCall
	}{
		"two inserts": {false, []*entityCall{{in: ops(insert(0, 1)), out: done}, {in: ops(insert(0, 2)), out: done}}},
		"two inserts, and a deletion between": {true, []*entityCall{{in: ops(insert(0, 1)), out: done},
			{in: ops(entityOp{kind: entity.Delete}), out: done}, {in: ops(insert(0, 2)), out: done}}},
		"an ETag that is good twice": {false, []*entityCall{{in: ops(insert(0, 1)), out: done},
			{in: ops(update(0, 1, 2)), out: done}, {in: ops(update(0, 1, 3)), out: done}}},
		"an ETag that is refused though it is the newest": {false, []*entityCall{{in: ops(insert(0, 1)), out: done},
			{in: ops(update(0, 1, 2)), out: refused(odata.UpdateConditionNotSatisfied)}}},
		"a part of a transaction": {false, []*entityCall{{in: ops(insert(0, 1), insert(1, 2)), out: done},
			{in: whole, out: found(entityRow{1, 1})}}},
		"a part of a transaction that was refused": {false, []*entityCall{{in: ops(insert(1, 1)), out: done},
			{in: ops(insert(1, 3), insert(0, 2)), out: refused(odata.EntityAlreadyExists)},
			{in: whole, out: found(entityRow{2, 2}, entityRow{1, 1})}}},
		"a merge that takes away": {false, []*entityCall{{in: ops(insert(0, 1)), out: done},
			{in: ops(entityOp{kind: entity.Merge, version: 2}), out: done}, {in: whole, out: found(entityRow{2, 0})}}},
		"an answer that was lost, and seen late": {true, []*entityCall{lost(ops(insert(0, 1))),
			{in: whole, out: found()}, {in: whole, out: found(entityRow{1, 1})}}},
		"an answer that was lost, and seen once": {false, []*entityCall{lost(ops(insert(0, 1))),
			{in: whole, out: found(entityRow{1, 1})}, {in: whole, out: found()}}},
		"an answer that was lost, and shows in a refusal only": {true, []*entityCall{{in: ops(insert(0, 1)), out: done},
			lost(ops(update(0, 1, 2))), {in: ops(update(0, 1, 3)), out: refused(odata.UpdateConditionNotSatisfied)}}},
		"a partition that was deleted, and is there": {false, []*entityCall{{in: ops(insert(0, 1)), out: done},
			{in: entityInput{wipe: true, row: -1}, out: done}, {in: whole, out: found(entityRow{1, 1})}}},
	} {
		for i, x := range c.history {
			x.call = int64(10 * (i + 1))
			if x.returned++; x.returned > 0 {
				x.returned = x.call + 5
			}
		}
		if may := porcupine.CheckOperations(entityModel(), entityOperations(c.history)); may != c.may {
			t.Errorf("%s: may be %v, want %v", name, may, c.may)
		}
	}
}

// TestMissingCommitsAreRead runs two seeds with their original options. Most commits are lost, and a node that joins or
// rebuilds has the acceptors' state before the rows: it knew of a commit that its page did not contain, so that all
// pages were equal, and a round that had just sent the commit to the other replicas evaluated its conditions without
// it.
func TestMissingCommitsAreRead(t *testing.T) {
	for _, seed := range []uint64{811948, 812552} {
		o := DrawnOptions(seed)
		report(t, o, run(t, o))
	}
}
