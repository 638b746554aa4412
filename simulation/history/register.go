package history

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// RegisterCall is one request of a client to a register.
type RegisterCall struct {
	Client int
	Key    int
	Write  bool
	// Values are unique in a history, so a value identifies its write.
	// Value was written or read; 0 means never written.
	Value int64
	Call  int64
	// Returned is 0 while the outcome is unknown.
	Returned int64
	// Dropped means that the call certainly had no effect: the checker leaves it out.
	Dropped bool
}

// CheckRegister passes the calls for a key to porcupine: a sequential register must be able to return the same answers.
// Clients have numbers below clients. It returns a violation, or an empty text.
func CheckRegister(calls []*RegisterCall, key, clients int) string {
	var ops []porcupine.Operation
	seen := registerSeen(calls, key)
	for _, c := range calls {
		if c.Key != key || c.Dropped || !c.Write && c.Returned == 0 {
			continue
		}
		returned, client := c.Returned, c.Client
		if returned == 0 {
			// It is unknown when it took effect, but it did before it was read. If it was never read, it may also be
			// ordered last. Meanwhile, a client whose request timed out continues; for the checker it is another
			// client.
			if returned = seen[c.Value]; returned == 0 {
				continue
			}
			client = clients + len(ops)
		}
		ops = append(ops, porcupine.Operation{ClientId: client, Input: registerInput{c.Write, c.Value}, Output: c.Value,
			Call: c.Call, Return: returned})
	}
	return linearizable(registerModel(), ops, fmt.Sprint("register ", key))
}

// registerSeen returns when the first read of each value returned.
func registerSeen(calls []*RegisterCall, key int) map[int64]int64 {
	seen := map[int64]int64{}
	for _, c := range calls {
		if at := seen[c.Value]; c.Key == key && !c.Write && c.Returned != 0 && (at == 0 || c.Returned < at) {
			seen[c.Value] = c.Returned
		}
	}
	return seen
}

// registerInput is a write of value, or a read, which ignores value.
type registerInput struct {
	write bool
	value int64
}

// registerModel is a sequential register that begins with 0. Its state is the value.
func registerModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return int64(0) },
		Step: func(state, input, output any) (bool, any) {
			in := input.(registerInput)
			if in.write {
				return true, in.value
			}
			return state == output, state
		},
		DescribeOperation: func(input, output any) string {
			in := input.(registerInput)
			if in.write {
				return fmt.Sprint("write ", in.value)
			}
			return fmt.Sprint("read ", output)
		},
	}
}
