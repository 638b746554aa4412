package replica

import (
	"errors"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/messaging"
	"cqld/ring"
	"cqld/row"
)

// Newest returns the negative size of the request, to show that the whole command has arrived.
func (e *engine) Newest(cmd *row.ReadCommand) (int64, error) {
	n := len(cmd.Key.Bytes)
	for _, s := range cmd.Slices {
		n += len(s.Start) + len(s.End)
	}
	if cmd.StaticCounts {
		n += 1000
	}
	return int64(-n), e.err
}

// TestNewestTimestampComesFromReplica checks that the command and the response arrive completely, and that a node
// refuses a command for a partition of which it is not a replica, or for several partitions.
func TestNewestTimestampComesFromReplica(t *testing.T) {
	for self, held := range map[ring.NodeID]bool{1: true, 2: false} {
		remote, e, _, table := pair(t, 2, self)
		key := row.NewPartitionKey([]byte("abc"))
		for i := 0; key.Token > 0 || key.Token < -1<<62; i++ { // of node 2, which has the tokens from 0 to 1<<62
			key = row.NewPartitionKey([]byte{'a', 'b', byte(i)})
		}
		cmd := &row.ReadCommand{Table: table.StorageID, Key: key, StaticCounts: true,
			Slices: []row.Slice{row.ExactRow([]byte("xy")), {Start: []byte("b"), End: []byte("a")}}}
		ask := func(epoch uint64, cmd *row.ReadCommand) (newest int64, err error) {
			remote.Newest(epoch, cmd, time.Second, func(n int64, e error) { newest, err = n, e })
			return newest, err
		}
		newest, err := ask(5, cmd)
		var refusal *coordinator.NotReplica
		if held != (err == nil && newest == -1010) || held == errors.As(err, &refusal) {
			t.Errorf("at node %d: %d, %v", self, newest, err)
		}
		if !held {
			continue
		}
		e.err = errors.New("broken")
		if _, err := ask(5, cmd); err == nil || errors.Is(err, coordinator.ErrNotSent) {
			t.Errorf("a failed engine: %v", err)
		}
		if _, err := ask(5, &row.ReadCommand{Table: table.StorageID,
			Range: row.KeyRange{Tokens: ring.FullRange()}}); err == nil {
			t.Error("the whole table has a newest timestamp")
		}
	}
}

// TestNewestTimestampOfWrongLengthIsRefused shows that a malformed answer is an error.
func TestNewestTimestampOfWrongLengthIsRefused(t *testing.T) {
	remote, _, l, table := pair(t, 1, 1)
	for _, answer := range [][]byte{nil, {1}, make([]byte, 9)} {
		l.Handle(messaging.Service{Verb: messaging.VerbNewest,
			Handler: func(_ ring.NodeID, _ []byte, respond messaging.Respond) { respond(answer, nil) }})
		var err error
		remote.Newest(5, &row.ReadCommand{Table: table.StorageID, Key: row.NewPartitionKey([]byte("k"))}, time.Second,
			func(_ int64, e error) { err = e })
		if err == nil {
			t.Errorf("%d bytes are a timestamp", len(answer))
		}
	}
}
