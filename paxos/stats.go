package paxos

import "sync/atomic"

// Stats are counts since the start.
type Stats struct {
	// WriteTimeouts, Unavailable, Overloaded and Replans count what ordinary requests count in coordinator.Stats.
	WriteTimeouts, Unavailable, Overloaded, Replans uint64
	// Contentions counts attempts that lost to another proposer, Finished the completed proposals of other proposers.
	Contentions, Finished uint64
	// Rounds counts answered rounds, Shared the requests that shared a round with others, Unprepared the proposals
	// without promises, Alone the rounds of an only voter, Turns the turns that arbiters granted.
	Rounds, Shared, Unprepared, Alone, Turns uint64
	// LookedUp counts proposals in doubt whose outcome was determined, Unknown the changes answered with CASUnknown.
	LookedUp, Unknown uint64
	// CommitsSent counts attempts that had to send the latest decided change to acceptors that lacked it. Rereads
	// counts attempts that had to read at a quorum because the promises came with different rows. ArbitersFailed counts
	// requests for a turn that failed or were not answered in time.
	CommitsSent, Rereads, ArbitersFailed uint64
	// Failures counts the requests that were answered with an error, by cause.
	Failures FailureCounts
	// Times is the time that rounds spent in each stage.
	Times StageTimes
}

type counters struct {
	writeTimeouts, unavailable, overloaded, replans atomic.Uint64
	contentions, finished                           atomic.Uint64
	rounds, shared, unprepared, alone, turns        atomic.Uint64
	lookedUp, unknown                               atomic.Uint64
	commitsSent, rereads, arbitersFailed            atomic.Uint64
	failures                                        failureCounts
	stageTimes                                      stageTimes
}

// Stats returns the counts.
func (c *Proposer) Stats() Stats {
	n := &c.counts
	return Stats{
		WriteTimeouts: n.writeTimeouts.Load(), Unavailable: n.unavailable.Load(), Overloaded: n.overloaded.Load(),
		Replans:     n.replans.Load(),
		Contentions: n.contentions.Load(), Finished: n.finished.Load(),
		Rounds: n.rounds.Load(), Shared: n.shared.Load(), Unprepared: n.unprepared.Load(), Alone: n.alone.Load(),
		Turns: n.turns.Load(), LookedUp: n.lookedUp.Load(), Unknown: n.unknown.Load(),
		CommitsSent: n.commitsSent.Load(), Rereads: n.rereads.Load(), ArbitersFailed: n.arbitersFailed.Load(),
		Failures: n.failures.load(), Times: n.stageTimes.load(),
	}
}
