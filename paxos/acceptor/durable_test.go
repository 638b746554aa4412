package acceptor

import (
	"errors"
	"testing"

	"cqld/paxos/ballot"
	"cqld/replica"
	"cqld/row"
	"cqld/storage"
)

// watchedEngine records writes without a sync, and can fail.
type watchedEngine struct {
	replica.Engine
	applied, fleeting int
	fails             error
}

func (e *watchedEngine) Apply(ms []*row.Mutation, durable bool, done func(error)) error {
	e.applied++
	if !durable {
		e.fleeting++
	}
	if e.fails != nil {
		done(e.fails)
		return nil
	}
	return e.Engine.Apply(ms, durable, done)
}

// Queue applies as Apply does.
func (e *watchedEngine) Queue(ms []*row.Mutation, durable bool, done func(error)) error {
	return e.Apply(ms, durable, done)
}

// TestAcceptorAnswersWhenItsStateIsOnDisk executes a round: each of its three answers waits for the disk.
func TestAcceptorAnswersWhenItsStateIsOnDisk(t *testing.T) {
	watched := &watchedEngine{}
	l, _, table := newAcceptorOf(t, func(e *storage.Engine) replica.Engine { watched.Engine = e; return watched })
	prepare(t, l, table, ballotAt(10, 1))
	p := proposalOf(table, ballotAt(10, 1), ballotAt(10, 1), "k")
	accept(t, l, p)
	l.Commit(5, p, func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	})
	if watched.applied != 3 || watched.fleeting > 0 {
		t.Errorf("%d changes of the state, %d not durable", watched.applied, watched.fleeting)
	}
}

// TestAcceptorForgetsWhatItFailedToWrite shows that an acceptor does not use a state whose write failed.
func TestAcceptorForgetsWhatItFailedToWrite(t *testing.T) {
	watched := &watchedEngine{}
	l, _, table := newAcceptorOf(t, func(e *storage.Engine) replica.Engine { watched.Engine = e; return watched })
	prepare(t, l, table, ballotAt(10, 1))
	p := proposalOf(table, ballotAt(10, 1), ballotAt(10, 1), "k")
	watched.fails = errors.New("the disk failed")
	l.Accept(5, p, func(_ ballot.Ballot, err error) {
		if err == nil {
			t.Error("a proposal that was not written is accepted")
		}
	})
	watched.fails = nil
	if got := prepare(t, l, table, ballotAt(20, 2)); got.Refused || got.Accepted.Ballot.Present() {
		t.Errorf("a promise after a write that failed: %+v", got)
	}
}
