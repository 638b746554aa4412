package paxos

import (
	"sync"

	"cqld/paxos/contention"
	"cqld/ring"
)

// A coordinator that goes on with a partition whose last ballot it settled itself needs no promises.
// Its prepare only reads: an acceptor that knows of no ballot after that previous one answers with the
// rows and promises nothing, which costs no write. The proposal then names the previous ballot P, and an
// acceptor takes it, as B, only when it still knows of none after P. In the usual case that is one
// write to disk less at each acceptor, and in one round after the other nothing is sent twice.
//
//	with promises:   prepare B ─▶ (disk) promise, rows ─▶ accept B ─▶ (disk) ─▶ commit ─▶ (disk)
//	after P:         read, P?  ─▶        rows          ─▶ accept B after P ─▶ (disk) ─▶ commit ─▶ (disk)
//
// Why B is safe. P is settled: what was decided up to it is with a quorum, and nothing else before it will
// be. Either a majority took P, and its change, if it had one, is with a quorum; or nothing was proposed,
// as no condition held, and every voter promised P while none held a proposal in progress
// (round.settled). To take B after P is to promise and accept in one step, by an acceptor that has
// neither promised nor accepted anything in between.
//
//  1. When a majority takes B, nothing between P and B was or will be decided: any b there needs a
//     majority that takes it, an acceptor in both majorities either took b first, and then refuses B, or
//     took B first, and then refuses b as the earlier ballot. So the rows that a quorum had after P are
//     what B's conditions must be asked of.
//  2. Any ballot after B needs a majority of promises; one of those acceptors took B, before its promise
//     or it would have refused it. So B is seen, as any proposal is.
//  3. When only some take B, another proposer may meet it beside another proposal b, and must not take B
//     for decided. If b was proposed with promises, and lies after P, a majority had promised b; B can
//     never get a majority beside it, as in 1 or, when b is later, since those promises refuse B or show
//     it. So proposals with promises go before the ones without; and when something after P is settled, B is
//     void, as in 1 (round.inProgress). What remains rests on the last settled ballot, and there is one
//     such proposal at most: only the coordinator that settled P may propose after it, and it does so once
//     (lastBallots.take).
//
// The ring: acceptors refuse what was planned before it last moved, and as long as it moves each majority
// counts among the replicas before and after, here as everywhere; so majorities of neighbouring rings
// meet. A ballot of another epoch is forgotten. A coordinator that restarts knows none. SERIAL and
// LOCAL_SERIAL do not go on with each other's ballots.
//
// The floor (View.PaxosFloor) is a promise, too, of every acceptor for every partition of a table, to nobody: who knows
// of a floor after P takes nothing that rests on P. Who has forgotten what it had up to the floor knows of the floor.

// lastBallot is a ballot that this coordinator settled.
type lastBallot struct {
	line   string
	ballot Ballot
	prior  Ballot // the latest decided change; with a quorum
	// history is which changes were decided up to prior.
	history History
	epoch   uint64
	serial  ring.Consistency
}

// lastBallots are those of the partitions that were changed last, each in the place of its name's hash.
type lastBallots struct {
	mu    sync.Mutex
	slots []lastBallot
}

func newLastBallots(n int) *lastBallots { return &lastBallots{slots: make([]lastBallot, n)} }

func (l *lastBallots) slot(line string) *lastBallot {
	return &l.slots[contention.Hash(line)%uint32(len(l.slots))]
}

// forget is what others' later ballots make of the partition's last.
func (l *lastBallots) forget(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.slot(line); s.line == line {
		*s = lastBallot{}
	}
}

// take gives the partition's last ballot away: nothing is proposed after it a second time.
func (l *lastBallots) take(line string, epoch uint64, serial ring.Consistency) (last lastBallot, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.slot(line)
	if s.line != line {
		return lastBallot{}, false
	}
	last, *s = *s, lastBallot{}
	return last, last.epoch == epoch && last.serial == serial
}

func (l *lastBallots) put(last lastBallot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*l.slot(last.line) = last
}

// settledLocked remembers that ballot b of this round is settled, so that the next round may go on from it.
func (op *round) settledLocked(b, prior Ballot, history History) {
	op.c.lastBallots.put(lastBallot{line: op.line, ballot: b, prior: prior, history: history, epoch: op.topology.Epoch(), serial: op.serial})
}

// quorate says whether a commit at the level is with a quorum of those who vote.
func quorate(level, serial ring.Consistency) bool {
	switch level {
	case ring.Quorum, ring.All, ring.EachQuorum:
		return true
	case ring.LocalQuorum:
		return serial == ring.LocalSerial
	}
	return false
}
