package history

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// ConditionalCall is one conditional change, or one read at SERIAL, of a register.
type ConditionalCall struct {
	Client, Key int
	Input       ConditionalInput
	Output      ConditionalOutput
	// Call and Returned are times in the order of observation. Returned is 0 while the outcome is unknown.
	Call     int64
	Returned int64 // 0 while unknown
	// Dropped means that the call certainly did nothing: the checker leaves it out.
	Dropped bool
}

// ConditionalInput requests to change Expect to Value, or a read if Value is 0.
type ConditionalInput struct{ Expect, Value int64 }

// ConditionalOutput is the answer: applied, or the value found.
type ConditionalOutput struct {
	// unknown means that no answer was received: the model may apply the change or not. It is set by CheckConditional
	// only.
	Applied, unknown bool
	Found            int64
}

// CheckConditional passes the calls for a key to porcupine: a sequential register must be able to return the answers
// that the clients received. Clients have numbers below clients. It returns a violation, or an empty text.
func CheckConditional(calls []*ConditionalCall, key, clients int) string {
	var ops []porcupine.Operation
	seen := conditionalSeen(calls, key)
	for _, c := range calls {
		if c.Key != key || c.Dropped || c.Returned == 0 && c.Input.Value == 0 {
			continue
		}
		returned, client, output := c.Returned, c.Client, c.Output
		if returned == 0 {
			// It is unknown whether it took effect. It did before its value was seen; if the value was never seen, it
			// may not have taken effect.
			if returned = seen[c.Input.Value]; returned == 0 {
				continue
			}
			// The client has continued meanwhile. Porcupine requires that the calls of one client do not overlap, so
			// this call belongs to a client of its own.
			client, output.unknown = clients+len(ops), true
		}
		ops = append(ops, porcupine.Operation{ClientId: client, Input: c.Input, Output: output, Call: c.Call,
			Return: returned})
	}
	return linearizable(conditionalModel(), ops, fmt.Sprint("cas register ", key))
}

// conditionalSeen returns when the first answer that proves each value was returned: the value itself, or a later one
// in the chain.
func conditionalSeen(calls []*ConditionalCall, key int) map[int64]int64 {
	seen := map[int64]int64{}
	for _, c := range calls {
		if c.Key != key || c.Returned == 0 {
			continue
		}
		value := c.Output.Found
		// The change shows that its expected value was there. The new value is proved by those who see it.
		if c.Output.Applied {
			value = c.Input.Expect
		}
		if at := seen[value]; at == 0 || c.Returned < at {
			seen[value] = c.Returned
		}
	}
	// A chain of changes without answers: a value that was seen proves the change that wrote it, and so the value that
	// this change expected.
	// Successors come later in the list, so they are treated first.
	for i := len(calls) - 1; i >= 0; i-- {
		c := calls[i]
		if c.Key != key || c.Returned != 0 || c.Input.Value == 0 || seen[c.Input.Value] == 0 {
			continue
		}
		if at := seen[c.Input.Expect]; at == 0 || seen[c.Input.Value] < at {
			seen[c.Input.Expect] = seen[c.Input.Value]
		}
	}
	return seen
}

// conditionalModel is a sequential register that begins with 0. Its state is the value.
func conditionalModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return int64(0) },
		Step: func(state, input, output any) (bool, any) {
			in, out, now := input.(ConditionalInput), output.(ConditionalOutput), state.(int64)
			switch {
			case in.Value == 0:
				return out.Found == now, now
			case out.unknown && now == in.Expect, out.Applied && now == in.Expect:
				return true, in.Value
			case out.unknown:
				return true, now
			case out.Applied:
				return false, now
			}
			// The change was refused: the value must differ from the expected one and be the one in the answer.
			return now != in.Expect && out.Found == now, now
		},
		DescribeOperation: func(input, output any) string {
			in, out := input.(ConditionalInput), output.(ConditionalOutput)
			if in.Value == 0 {
				return fmt.Sprint("read ", out.Found)
			}
			return fmt.Sprintf("%d → %d: %+v", in.Expect, in.Value, out)
		},
	}
}
