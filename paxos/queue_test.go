package paxos

import (
	"testing"

	"cqld/ring"
	"cqld/row"
)

// TestTogether shows where a round ends.
func TestTogether(t *testing.T) {
	exact := func() *row.ReadCommand {
		return &row.ReadCommand{Table: 1000, Key: row.NewPartitionKey([]byte("k")),
			Slices: []row.Slice{row.ExactRow([]byte("a"))}}
	}
	update := func([]byte, int64) (*row.Mutation, bool, error) { return nil, true, nil }
	change := func(level ring.Consistency) *member {
		return &member{req: &CASRequest{Command: exact(), Serial: ring.Serial, Consistency: level, Update: update}}
	}
	read := &member{req: &CASRequest{Command: exact(), Serial: ring.Serial, Consistency: ring.Quorum}}
	local := &member{req: &CASRequest{Command: exact(), Serial: ring.LocalSerial, Consistency: ring.Quorum,
		Update: update}}
	limited := change(ring.Quorum)
	limited.req.Command.Limits.Rows = 1
	wide := change(ring.Quorum)
	for range 5 {
		wide.req.Command.Slices = append(wide.req.Command.Slices, row.ExactRow([]byte("b")))
	}
	q := change(ring.Quorum)
	limits := Limits{Round: 4, RoundSlices: 5}
	for _, c := range []struct {
		waiting []*member
		want    int
	}{
		{[]*member{q, q, q}, 3},
		{[]*member{q, q, q, q, q}, 4},
		{[]*member{limited, q}, 1},
		{[]*member{q, limited, q}, 1},
		{[]*member{q, local, q}, 1},
		{[]*member{q, change(ring.One), q}, 1},
		{[]*member{read, change(ring.One), read, q}, 3},
		{[]*member{wide, q}, 1},
		{[]*member{q, wide}, 1},
	} {
		if got := together(c.waiting, &limits); got != c.want {
			t.Errorf("%d of %d go together, not %d", got, len(c.waiting), c.want)
		}
	}
}
