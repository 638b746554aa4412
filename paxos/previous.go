package paxos

import (
	"sync"

	"cqld/paxos/ballot"
	"cqld/paxos/contention"
	"cqld/ring"
)

// A coordinator that settled the last ballot of a partition itself needs no promises for the next one. Its prepare only
// reads: an acceptor that knows no ballot after that previous one returns the rows and promises nothing, which costs no
// write. The proposal B then names the previous ballot P, and an acceptor accepts B only if it still knows no ballot
// after P. In the usual case this saves one write to disk at each acceptor.
//
//	with promises:   prepare B ─▶ (disk) promise, rows ─▶ accept B ─▶ (disk) ─▶ commit ─▶ (disk)
//	after P:         read, P?  ─▶        rows          ─▶ accept B after P ─▶ (disk) ─▶ commit ─▶ (disk)
//
// Why B is safe. P is settled: every change decided up to P is at a quorum, and nothing else before P will be decided.
// Either a majority accepted P, and its change, if it had one, is at a quorum; or nothing was proposed, because no
// condition held, and every voter promised P while none held a proposal in progress (poll.settled). Accepting B after
// P promises and accepts in one step, at an acceptor that has neither promised nor accepted anything in between.
//  1. If a majority accepts B, nothing between P and B was or will be decided. Any ballot b in between needs a majority
//     that accepts it. An acceptor in both majorities either accepted b first, and then refuses B, or accepted B first,
//     and then refuses b as the earlier ballot. So the rows that a quorum had after P are the right input for B's
//     conditions.
//  2. Any ballot after B needs promises of a majority. One of those acceptors accepted B, and did so before its
//     promise, because it would have refused B afterwards. So the promises show B, as they show any proposal.
//  3. If only some acceptors accept B, another proposer may find it together with another proposal b, and must not
//     conclude that B is decided.
//     a. If b was proposed with promises and is after P, a majority had promised b. B can then never get a majority, by
//        1
//     or, if b is later than B, because those promises refuse B or show it. So proposals with promises have precedence.
//     b. If any ballot after P is settled, B is void, as in 1 (poll.inProgress).
//     c. The remaining proposals without promises rest on the last settled ballot. There is at most one: only the
//     coordinator that settled P may propose after it, and it does so once (lastBallots.remove).
//
// Ring changes: acceptors refuse requests that were planned before the ring last moved. While it moves, each majority
// is counted among the replicas before and after, here as everywhere, so majorities of consecutive rings overlap. A
// ballot of another epoch is discarded. A coordinator that restarts knows none. SERIAL and LOCAL_SERIAL do not use each
// other's previous ballots.
//
// The low bound (View.PaxosFloor) acts as a promise of every acceptor for every partition of a table: an acceptor that
// knows a low bound after P accepts no proposal that rests on P. An acceptor that has purged its state up to the low
// bound knows the low bound.

// lastBallot is a ballot that this coordinator settled.
type lastBallot struct {
	partition string
	ballot    ballot.Ballot
	prior     ballot.Ballot // the latest decided change; it is at a quorum
	// history lists the changes decided up to prior.
	history ballot.History
	epoch   uint64
	serial  ring.Consistency
}

// lastBallots contains the last ballots of recently changed partitions, each in the slot of its key's hash.
type lastBallots struct {
	mu    sync.Mutex
	slots []lastBallot
}

// newLastBallots returns an empty set of n slots.
func newLastBallots(n int) *lastBallots { return &lastBallots{slots: make([]lastBallot, n)} }

// slot returns the slot of a partition. Two partitions of one slot displace each other, which only costs promises.
func (l *lastBallots) slot(partition string) *lastBallot {
	return &l.slots[contention.Hash(partition)%uint32(len(l.slots))]
}

// forget removes the partition's ballot, because another coordinator has used a later one.
func (l *lastBallots) forget(partition string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.slot(partition); s.partition == partition {
		*s = lastBallot{}
	}
}

// remove removes and returns the partition's last ballot: a second proposal must not rest on it.
func (l *lastBallots) remove(partition string, epoch uint64, serial ring.Consistency) (last lastBallot, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.slot(partition)
	if s.partition != partition {
		return lastBallot{}, false
	}
	// The ballot is removed even if it belongs to another ring or level: after the proposal that follows, it is no
	// longer the last.
	last, *s = *s, lastBallot{}
	return last, last.epoch == epoch && last.serial == serial
}

// put stores a last ballot in place of the one in its slot.
func (l *lastBallots) put(last lastBallot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*l.slot(last.partition) = last
}

// quorate reports whether a commit at the level reaches a quorum of the voters.
func quorate(level, serial ring.Consistency) bool {
	switch level {
	case ring.Quorum, ring.All, ring.EachQuorum:
		return true
	case ring.LocalQuorum:
		// The voters are then the replicas in this data center.
		return serial == ring.LocalSerial
	}
	return false
}
