package history

import (
	"testing"

	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
)

// TestEntitiesAreJudged passes histories to the checker: invalid ones, and unusual valid ones.
func TestEntitiesAreJudged(t *testing.T) {
	ops := func(ops ...EntityOp) EntityInput { return EntityInput{Ops: ops, Row: -1} }
	insert := func(row int, version int64) EntityOp {
		return EntityOp{Row: row, Kind: entity.Insert, Version: version}
	}
	update := func(row int, expect, version int64) EntityOp {
		return EntityOp{Row: row, Kind: entity.Update, Expect: expect, Version: version}
	}
	done := EntityOutput{Failed: -1}
	refused := func(code odata.Code) EntityOutput { return EntityOutput{Code: code} }
	found := func(rows ...EntityRow) EntityOutput {
		out := EntityOutput{Failed: -1}
		copy(out.Rows[:], rows)
		return out
	}
	whole := EntityInput{Row: -1}
	lost := func(in EntityInput) *EntityCall { return &EntityCall{In: in, Out: done, Returned: -1} }
	for name, c := range map[string]struct {
		may     bool
		history []*EntityCall
	}{
		"two inserts": {false, []*EntityCall{{In: ops(insert(0, 1)), Out: done}, {In: ops(insert(0, 2)), Out: done}}},
		"two inserts, and a deletion between": {true, []*EntityCall{{In: ops(insert(0, 1)), Out: done},
			{In: ops(EntityOp{Kind: entity.Delete}), Out: done}, {In: ops(insert(0, 2)), Out: done}}},
		"an ETag that is good twice": {false, []*EntityCall{{In: ops(insert(0, 1)), Out: done},
			{In: ops(update(0, 1, 2)), Out: done}, {In: ops(update(0, 1, 3)), Out: done}}},
		"an ETag that is refused though it is the newest": {false, []*EntityCall{{In: ops(insert(0, 1)), Out: done},
			{In: ops(update(0, 1, 2)), Out: refused(odata.UpdateConditionNotSatisfied)}}},
		"a part of a transaction": {false, []*EntityCall{{In: ops(insert(0, 1), insert(1, 2)), Out: done},
			{In: whole, Out: found(EntityRow{1, 1})}}},
		"a part of a transaction that was refused": {false, []*EntityCall{{In: ops(insert(1, 1)), Out: done},
			{In: ops(insert(1, 3), insert(0, 2)), Out: refused(odata.EntityAlreadyExists)},
			{In: whole, Out: found(EntityRow{2, 2}, EntityRow{1, 1})}}},
		"a merge that takes away": {false, []*EntityCall{{In: ops(insert(0, 1)), Out: done},
			{In: ops(EntityOp{Kind: entity.Merge, Version: 2}), Out: done}, {In: whole, Out: found(EntityRow{2, 0})}}},
		"an answer that was lost, and seen late": {true, []*EntityCall{lost(ops(insert(0, 1))),
			{In: whole, Out: found()}, {In: whole, Out: found(EntityRow{1, 1})}}},
		"an answer that was lost, and seen once": {false, []*EntityCall{lost(ops(insert(0, 1))),
			{In: whole, Out: found(EntityRow{1, 1})}, {In: whole, Out: found()}}},
		"an answer that was lost, and shows in a refusal only": {true, []*EntityCall{{In: ops(insert(0, 1)), Out: done},
			lost(ops(update(0, 1, 2))), {In: ops(update(0, 1, 3)), Out: refused(odata.UpdateConditionNotSatisfied)}}},
		"a partition that was deleted, and is there": {false, []*EntityCall{{In: ops(insert(0, 1)), Out: done},
			{In: EntityInput{Wipe: true, Row: -1}, Out: done}, {In: whole, Out: found(EntityRow{1, 1})}}},
	} {
		for i, x := range c.history {
			x.Call = int64(10 * (i + 1))
			if x.Returned++; x.Returned > 0 {
				x.Returned = x.Call + 5
			}
		}
		if may := CheckEntities(c.history, 0) == ""; may != c.may {
			t.Errorf("%s: may be %v, want %v", name, may, c.may)
		}
	}
}
