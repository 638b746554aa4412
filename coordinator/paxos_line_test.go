package coordinator

import (
	"testing"

	"cqld/ring"
	"cqld/row"
)

// TestTogether shows where a round ends.
func TestTogether(t *testing.T) {
	exact := func() *row.ReadCommand {
		return &row.ReadCommand{Table: 1000, Key: row.NewPartitionKey([]byte("k")), Slices: []row.Slice{row.ExactRow([]byte("a"))}}
	}
	update := func([]byte, int64) (*row.Mutation, bool, error) { return nil, true, nil }
	change := func(level ring.Consistency) *casMember {
		return &casMember{req: &CASRequest{Command: exact(), Serial: ring.Serial, Consistency: level, Update: update}}
	}
	read := &casMember{req: &CASRequest{Command: exact(), Serial: ring.Serial, Consistency: ring.Quorum}}
	local := &casMember{req: &CASRequest{Command: exact(), Serial: ring.LocalSerial, Consistency: ring.Quorum, Update: update}}
	limited := change(ring.Quorum)
	limited.req.Command.Limits.Rows = 1
	wide := change(ring.Quorum)
	for range 5 {
		wide.req.Command.Slices = append(wide.req.Command.Slices, row.ExactRow([]byte("b")))
	}
	q := change(ring.Quorum)
	limits := Limits{CASRound: 4, CASRoundSlices: 5}
	for _, c := range []struct {
		waiting []*casMember
		want    int
	}{
		{[]*casMember{q, q, q}, 3},
		{[]*casMember{q, q, q, q, q}, 4},
		{[]*casMember{limited, q}, 1},
		{[]*casMember{q, limited, q}, 1},
		{[]*casMember{q, local, q}, 1},
		{[]*casMember{q, change(ring.One), q}, 1},
		{[]*casMember{read, change(ring.One), read, q}, 3},
		{[]*casMember{wide, q}, 1},
		{[]*casMember{q, wide}, 1},
	} {
		if got := together(c.waiting, &limits); got != c.want {
			t.Errorf("%d of %d go together, not %d", got, len(c.waiting), c.want)
		}
	}
}
