package acceptor

import (
	"bytes"
	"runtime"
	"testing"

	"cqld/paxos/ballot"
	"cqld/replica"
	"cqld/row"
	"cqld/schema"
)

// copyingEngine is empty storage that copies mutations during the call, as Engine must.
type copyingEngine struct{ applied []byte }

func (e *copyingEngine) Apply(ms []*row.Mutation, _ bool, done func(error)) error {
	e.applied = e.applied[:0]
	for _, m := range ms {
		e.applied = row.AppendMutation(e.applied, m)
	}
	done(nil)
	return nil
}

// Queue applies as Apply does.
func (e *copyingEngine) Queue(ms []*row.Mutation, durable bool, done func(error)) error {
	return e.Apply(ms, durable, done)
}

func (e *copyingEngine) Commit() {}

// Forget applies as Apply does.
func (e *copyingEngine) Forget(ms []*row.Mutation, durable bool, done func(error)) error {
	return e.Apply(ms, durable, done)
}

func (e *copyingEngine) Read(dst []byte, _ *row.ReadCommand) ([]byte, error) {
	return append(dst, 0, 0), nil
}

func (e *copyingEngine) Truncate(schema.StorageID) error { return nil }

func (e *copyingEngine) Newest(*row.ReadCommand) (int64, error) { return 0, nil }

// TestAcceptTakesNoMemoryForTheProposal shows that an acceptor writes consecutive large proposals from reused memory,
// unchanged.
func TestAcceptTakesNoMemoryForTheProposal(t *testing.T) {
	if raceEnabled {
		t.Skip("sync.Pool keeps nothing under the race detector")
	}
	v, table := newView(t)
	engine := &copyingEngine{}
	l := New(replica.NewLocal(engine, v, nil), v)
	const size, rounds = 400 << 10, 200
	value := bytes.Repeat([]byte{7}, size)
	m := new(row.Mutation)
	m.Reset(table.StorageID, row.NewPartitionKey([]byte("k")))
	r := row.NewRow()
	r.Clustering = []byte{0x80, 1}
	r.Cells = []row.Cell{{Column: 1, Timestamp: 1, Value: value}}
	m.AddRow(r)
	update := row.AppendMutation(nil, m)
	acceptNext := func(micros int64) {
		b := ballotAt(micros, 1)
		p := &ballot.Proposal{Ballot: b, Origin: b, Table: table.StorageID, Key: m.Key, Update: update}
		l.Accept(5, p, func(refused ballot.Ballot, err error) {
			if err != nil || refused.Present() {
				t.Fatalf("refused for %v, %v", refused, err)
			}
		})
		if !bytes.Contains(engine.applied, update) {
			t.Fatal("the proposal was not written")
		}
	}
	acceptNext(1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range rounds {
		acceptNext(int64(2 + i))
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / rounds; each > size/4 {
		t.Errorf("%d bytes were allocated for a proposal of %d", each, size)
	}
}
