package paxos

import (
	"cmp"
	"errors"
	"sync/atomic"

	"cqld/coordinator"
)

// Cause is why a conditional change or a serial read failed.
type Cause uint8

// The causes. The first ones are stages of the round in which the time was over.
const (
	CauseNone       Cause = iota
	CauseQueue            // the request waited for other rounds of the partition, or completed them, until its timeout
	CauseContention       // other proposers outvoted its attempts
	CauseRing             // acceptors refused every plan, because their topology was another one
	CausePrepare          // too few acceptors answered prepare
	CauseRead             // too few replicas answered a missing commit or the read at a quorum
	CausePropose          // too few acceptors answered the proposal
	CauseCommit           // the change was decided, and too few replicas acknowledged its commit
	// CauseUnknown means that the outcome of a proposal could not be determined in time.
	CauseUnknown
	CauseUnavailable // too few replicas were alive
	CauseOverloaded  // a bound of this node or of acceptors was exceeded
	CauseError       // replicas answered with errors, or a request cannot be executed
	// Causes is the number of causes.
	Causes
)

// String returns the name of the cause in metrics.
func (c Cause) String() string {
	return [...]string{"none", "queue", "contention", "ring", "prepare", "read", "propose", "commit", "unknown",
		"unavailable",
		"overloaded", "error"}[c]
}

// FailureCounts holds the number of failed requests by cause.
type FailureCounts [Causes]uint64

// String returns the counts that are not 0, or "0" if all are.
func (n FailureCounts) String() string { return describe[Cause](n[:]) }

// failureCounts holds the same. Its methods may be called concurrently.
type failureCounts [Causes]atomic.Uint64

// load returns the counts.
func (n *failureCounts) load() (out FailureCounts) {
	for i := range n {
		out[i] = n[i].Load()
	}
	return out
}

// causeOf returns the cause of a time-out in the round's present stage. Between attempts it is the cause of the last
// one's failure.
func (op *round) causeOf() Cause {
	switch op.stage {
	case StagePrepare:
		return CausePrepare
	case StageRead:
		return CauseRead
	case StagePropose:
		return CausePropose
	case StageCommit:
		return CauseCommit
	}
	return cmp.Or(op.delay, CauseQueue)
}

// countFailure counts the error of a member. cause names the stage, for time-outs.
func (c *Proposer) countFailure(err error, cause Cause) {
	var (
		unknown      *coordinator.CASUnknown
		timeout      *coordinator.WriteTimeout
		readTimeout  *coordinator.ReadTimeout
		writeFailure *coordinator.WriteFailure
		readFailure  *coordinator.ReadFailure
		unavailable  *coordinator.Unavailable
		overloaded   *coordinator.Overloaded
	)
	switch {
	case errors.As(err, &unknown):
		c.counts.writeTimeouts.Add(1)
		c.counts.unknown.Add(1)
		cause = CauseUnknown
	case errors.As(err, &timeout):
		if timeout.Type == coordinator.WriteCAS {
			c.counts.writeTimeouts.Add(1)
		}
	case errors.As(err, &readTimeout):
	case errors.As(err, &unavailable):
		cause = CauseUnavailable
	case errors.As(err, &overloaded):
		cause = CauseOverloaded
	case errors.As(err, &writeFailure), errors.As(err, &readFailure):
		cause = CauseError
	default:
		return // an error of the request itself, for example of its condition
	}
	c.counts.failures[cause].Add(1)
}

// responses returns the number of natural voters that answered the present phase, with a vote of either kind.
func (op *round) responses() int {
	return op.count(op.voters.natural, func(v *vote) bool { return v.state == voteYes || v.state == voteNo })
}

// timedOut returns the error of a change that failed and certainly was not made, because voters did not answer the
// present phase. Those that refused have answered.
func (op *round) timedOut() error { return op.timeoutAfter(op.responses() - op.behind) }

// timeoutAfter returns the error of a change that failed and certainly was not made, after a number of responses. Like
// Cassandra, it limits the number to a quorum.
func (op *round) timeoutAfter(received int) error {
	required := op.voters.required()
	return &coordinator.WriteTimeout{Consistency: op.serial, Received: min(max(received, 0), required),
		BlockFor: required,
		Type:     coordinator.WriteCAS, Contentions: op.contentions}
}
