package acceptor

import (
	"errors"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/internal/memory"
	"cqld/internal/wire"
	"cqld/messaging"
	"cqld/paxos/ballot"
	"cqld/replica"
	"cqld/ring"
	"cqld/row"
)

// respondLater is a transport that records what is reserved when a response is passed to it.
type respondLater struct {
	loopback
	pool *memory.Pool
	used int64
}

// promise sends a request for a promise to the service, as another node does.
func (l *respondLater) promise(cmd *row.ReadCommand, b ballot.Ballot) (err error) {
	payload := row.AppendReadCommand(appendBallot(appendBallot(wire.AppendUvarint(nil, 5), b), ballot.Ballot{}), cmd)
	l.services[messaging.VerbPaxosPrepare].Handler(ring.NodeID(2), payload, func(_ []byte, e error) {
		l.used, err = l.pool.Used(), replica.FromRemote(e)
	})
	return err
}

// The page that an acceptor reads for another node is reserved until the transport has it, and is refused if memory is
// not available in time. The page for a request of this node belongs to that request.
func TestPagesOfPromisesAreReserved(t *testing.T) {
	acceptor, _, table := newAcceptor(t)
	const page = 1 << 20
	pool := memory.New(memory.Options{Limits: memory.Limits{Bytes: 4 * page, Reserve: page, WaitMax: time.Nanosecond}})
	acceptor.replica.SetMemory(pool)
	l := &respondLater{loopback: loopback{services: map[messaging.Verb]messaging.Service{}}, pool: pool}
	Serve(l, acceptor)
	cmd := &row.ReadCommand{Table: table.StorageID, Key: row.NewPartitionKey([]byte("k")),
		Slices: []row.Slice{row.AllRows()},
		Limits: row.Limits{Bytes: page}}
	if err := l.promise(cmd, ballotAt(10, 1)); err != nil || l.used != page {
		t.Errorf("%v, %d bytes are reserved for a page of %d", err, l.used, page)
	}
	if used := pool.Used(); used != 0 {
		t.Errorf("%d bytes are reserved after the promise", used)
	}
	small := *cmd
	small.Limits.Bytes = 3 << 10
	if err := l.promise(&small, ballotAt(11, 1)); err != nil || l.used != 0 {
		t.Errorf("%v, %d bytes are reserved for a small page", err, l.used)
	}
	var busy [4]memory.Account // three have the memory, and the fourth one has the reserve
	for i := range busy {
		pool.Open(&busy[i], memory.Origin{}, nil)
		if err := busy[i].Grow(t.Context(), page); err != nil {
			t.Fatal(err)
		}
	}
	var overloaded *coordinator.Overloaded
	if err := l.promise(cmd, ballotAt(12, 1)); !errors.As(err, &overloaded) {
		t.Errorf("without memory: %v", err)
	}
	acceptor.Prepare(5, ballotAt(13, 1), ballot.Ballot{}, cmd, func(_ *ballot.Promise, err error) {
		if err != nil {
			t.Errorf("a request of this node: %v", err)
		}
	})
}
