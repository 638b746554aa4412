package history

import (
	"fmt"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"

	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
)

// EntityRows is the number of rows of a partition.
const EntityRows = 4

// EntityCall is one request of a client to a partition of entities.
type EntityCall struct {
	In   EntityInput
	Out  EntityOutput
	Call int64
	// Returned is 0 while the outcome is unknown.
	Returned int64
	// Dropped means a read, or a change that certainly had no effect. It has no influence if there is an answer.
	Dropped bool
}

// EntityInput is a transaction, the deletion of a whole partition, or a read of a row or, if that is -1, of all.
type EntityInput struct {
	// The operations of a transaction are applied together or not at all.
	Ops  []EntityOp
	Wipe bool
	Row  int
	// healed marks the end of the faults: operations that have not taken effect until then never will.
	healed bool
}

// EntityOp is one operation, on a row with the version Expect unless that is 0.
type EntityOp struct {
	Row  int
	Kind entity.Kind
	// Version is what the operation writes, unique in a history.
	Expect, Version int64
}

// EntityOutput is the answer: the rows read, or the operation that was refused and the reason.
type EntityOutput struct {
	Rows [EntityRows]EntityRow
	// Code is the reason of the refusal; it is set only if Failed is not -1.
	// Failed is the index of the operation that was refused; -1 means none.
	Failed  int
	Code    odata.Code
	unknown bool
}

// EntityRow is an entity: its newest version, and the version that wrote the property which merges keep. Version 0
// means that it does not exist.
type EntityRow struct{ Version, Kept int64 }

// entityState is the state of a partition.
type entityState struct {
	rows   [EntityRows]EntityRow
	healed bool
}

// after returns the row after an operation, or the reason why it is refused.
func (r EntityRow) after(op EntityOp) (EntityRow, odata.Code) {
	// Existence is checked before the ETag: the code of a refusal depends on this order.
	switch op.Kind {
	case entity.Insert:
		if r.Version != 0 {
			return r, odata.EntityAlreadyExists
		}
	case entity.Update, entity.Merge, entity.Delete:
		if r.Version == 0 {
			return r, odata.ResourceNotFound
		}
	}
	switch {
	case op.Expect != 0 && r.Version == 0:
		return r, odata.ResourceNotFound
	case op.Expect != 0 && r.Version != op.Expect:
		return r, odata.UpdateConditionNotSatisfied
	case op.Kind == entity.Delete:
		return EntityRow{}, ""
	// The other property stays.
	case op.Kind == entity.Merge, op.Kind == entity.InsertOrMerge:
		return EntityRow{op.Version, r.Kept}, ""
	}
	return EntityRow{op.Version, op.Version}, ""
}

// step is the transition of a sequential partition.
func (s entityState) step(in EntityInput, out EntityOutput) (bool, entityState) {
	// Arrays are values: this copies the rows.
	next := s
	switch {
	case in.healed:
		next.healed = true
		return true, next
	case in.Wipe:
		next.rows = [EntityRows]EntityRow{}
		return true, next
	case in.Ops == nil && in.Row >= 0:
		return s.rows[in.Row] == out.Rows[in.Row], s
	case in.Ops == nil:
		return s.rows == out.Rows, s
	}
	for i, op := range in.Ops {
		var code odata.Code
		if next.rows[op.Row], code = s.rows[op.Row].after(op); code != "" {
			// A transaction without an answer may be refused only at the end: until then, it is ordered where it is
			// applied.
			return out.unknown && s.healed || out.Failed == i && out.Code == code, s
		}
	}
	// All operations are possible, so the answer must not be a refusal.
	return out.Failed < 0, next
}

func entityModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return entityState{} },
		Step: func(state, input, output any) (bool, any) {
			return state.(entityState).step(input.(EntityInput), output.(EntityOutput))
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
	}
}

// CheckEntities passes the calls to a partition to porcupine: a sequential partition must be able to return the same
// answers. Each change without an answer doubles porcupine's search, so porcupine is first called without changes whose
// effect was not seen: an order of the others is an order of all, with these at the end, where they may fail. It
// returns a violation, or an empty text.
func CheckEntities(calls []*EntityCall, partition int) string {
	ops := entityOperations(calls)
	seen := slices.DeleteFunc(slices.Clone(ops), func(o porcupine.Operation) bool { return o.Return == math.MaxInt64 })
	if len(seen) < len(ops) && porcupine.CheckOperationsTimeout(entityModel(), seen, checkTimeout) == porcupine.Ok {
		return ""
	}
	return linearizable(entityModel(), ops, fmt.Sprint("entities ", partition))
}

// entityOperations converts the calls for porcupine. It is unknown whether a call without an answer took effect. It did
// before one of its versions was seen; if none was seen, it may have at any time.
func entityOperations(calls []*EntityCall) (ops []porcupine.Operation) {
	seen := map[int64]int64{}
	last := int64(0)
	for _, x := range calls {
		last = max(last, x.Call, x.Returned)
		for _, r := range x.Out.Rows {
			if at := seen[r.Version]; x.Returned != 0 && (at == 0 || x.Returned < at) {
				seen[r.Version] = x.Returned
			}
		}
	}
	for _, x := range calls {
		out, returned := x.Out, x.Returned
		if returned == 0 {
			if x.Dropped {
				continue
			}
			returned, out.unknown = math.MaxInt64, true
			for _, op := range x.In.Ops {
				if at := seen[op.Version]; at != 0 {
					returned = min(returned, at)
				}
			}
		}
		// Each call has a client of its own, because calls without an answer overlap with the next ones.
		ops = append(ops, porcupine.Operation{ClientId: len(ops), Input: x.In, Output: out, Call: x.Call,
			Return: returned})
	}
	return append(ops, porcupine.Operation{ClientId: len(ops), Input: EntityInput{healed: true},
		Output: EntityOutput{}, Call: last + 1, Return: last + 2})
}
