package paxos

import (
	"errors"
	"sync/atomic"

	"cqld/coordinator"
)

// Cause classifies why a conditional change or a serial read failed.
type Cause uint8

// The causes. The first ones are the stages of the round in which a request can time out.
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
		// In any stage, the client cannot know whether its change was made.
		cause = CauseUnknown
	case errors.As(err, &timeout):
		// A time-out of the commit has another type and is counted where it is made.
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
