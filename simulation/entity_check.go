package simulation

import (
	"fmt"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"

	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
)

// entityCall is one request of a client to a partition of entities.
type entityCall struct {
	in       entityInput
	out      entityOutput
	call     int64
	returned int64 // 0 while unknown
	dropped  bool  // a read, or certainly without effect
}

// entityInput is a transaction, the deletion of a whole partition, or a read of a row or, if that is -1, of all.
type entityInput struct {
	ops  []entityOp
	wipe bool
	row  int
	// healed marks the end of the faults: operations that have not taken effect until then never will.
	healed bool
}

// entityOp is one operation, on a row with the version expect unless that is 0.
type entityOp struct {
	row             int
	kind            entity.Kind
	expect, version int64
}

// entityOutput is the answer: the rows read, or the operation that was refused and the reason.
type entityOutput struct {
	rows    [entityRows]entityRow
	failed  int // -1 means none
	code    odata.Code
	unknown bool
}

// entityRow is an entity: its newest version, and the version that wrote the property which merges keep. Version 0
// means that it does not exist.
type entityRow struct{ version, kept int64 }

// entityState is the state of a partition.
type entityState struct {
	rows   [entityRows]entityRow
	healed bool
}

// after returns the row after an operation, or the reason why it is refused.
func (r entityRow) after(op entityOp) (entityRow, odata.Code) {
	switch op.kind {
	case entity.Insert:
		if r.version != 0 {
			return r, odata.EntityAlreadyExists
		}
	case entity.Update, entity.Merge, entity.Delete:
		if r.version == 0 {
			return r, odata.ResourceNotFound
		}
	}
	switch {
	case op.expect != 0 && r.version == 0:
		return r, odata.ResourceNotFound
	case op.expect != 0 && r.version != op.expect:
		return r, odata.UpdateConditionNotSatisfied
	case op.kind == entity.Delete:
		return entityRow{}, ""
	case op.kind == entity.Merge, op.kind == entity.InsertOrMerge:
		return entityRow{op.version, r.kept}, ""
	}
	return entityRow{op.version, op.version}, ""
}

// step is the transition of a sequential partition.
func (s entityState) step(in entityInput, out entityOutput) (bool, entityState) {
	next := s
	switch {
	case in.healed:
		next.healed = true
		return true, next
	case in.wipe:
		next.rows = [entityRows]entityRow{}
		return true, next
	case in.ops == nil && in.row >= 0:
		return s.rows[in.row] == out.rows[in.row], s
	case in.ops == nil:
		return s.rows == out.rows, s
	}
	for i, op := range in.ops {
		var code odata.Code
		if next.rows[op.row], code = s.rows[op.row].after(op); code != "" {
			return out.unknown && s.healed || out.failed == i && out.code == code, s
		}
	}
	return out.failed < 0, next
}

func entityModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return entityState{} },
		Step: func(state, input, output any) (bool, any) {
			return state.(entityState).step(input.(entityInput), output.(entityOutput))
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
	}
}

// check passes the history to porcupine: a sequential partition must be able to return the same answers. Each change
// without an answer doubles porcupine's search, so it is first called without those of which nothing was seen: an order
// of the others is an order of all, with these at the end, where they may fail.
func (w *entities) check() {
	for partition, history := range w.history {
		ops := entityOperations(history)
		seen := slices.DeleteFunc(slices.Clone(ops), func(o porcupine.Operation) bool {
			return o.Return == math.MaxInt64
		})
		if len(seen) < len(ops) && porcupine.CheckOperationsTimeout(entityModel(), seen, checkTimeout) == porcupine.Ok {
			continue
		}
		w.c.verify.linearizable(entityModel(), ops, fmt.Sprint("entities ", partition))
	}
}

// entityOperations converts the calls for porcupine. It is unknown whether a call without an answer took effect. It did
// before one of its versions was seen; if none was seen, it may have at any time.
func entityOperations(history []*entityCall) (ops []porcupine.Operation) {
	seen := map[int64]int64{}
	last := int64(0)
	for _, x := range history {
		last = max(last, x.call, x.returned)
		for _, r := range x.out.rows {
			if at := seen[r.version]; x.returned != 0 && (at == 0 || x.returned < at) {
				seen[r.version] = x.returned
			}
		}
	}
	for _, x := range history {
		out, returned := x.out, x.returned
		if returned == 0 {
			if x.dropped {
				continue
			}
			returned, out.unknown = math.MaxInt64, true
			for _, op := range x.in.ops {
				if at := seen[op.version]; at != 0 {
					returned = min(returned, at)
				}
			}
		}
		ops = append(ops, porcupine.Operation{ClientId: len(ops), Input: x.in, Output: out, Call: x.call,
			Return: returned})
	}
	return append(ops, porcupine.Operation{ClientId: len(ops), Input: entityInput{healed: true},
		Output: entityOutput{}, Call: last + 1, Return: last + 2})
}
