package write

import (
	"time"

	"cqld/ring"
	"cqld/schema"
)

// EventKind is the kind of an Event.
type EventKind uint8

const (
	// Begun is the first event.
	Begun EventKind = iota
	// Answered is the answer to a Send or an Apply, or its failure.
	Answered
	// Hinted follows a Hint if AwaitsHints: the hint is on disk, or lost.
	Hinted
	// Ticked is the deadline.
	Ticked
	// Resumed is the end of a Pause or a Replan.
	Resumed
)

// Answer classifies a node's answer to a Send, an Apply or a Hint.
type Answer uint8

const (
	// Acknowledges means that the node has applied the mutations, or that the hint is on disk.
	Acknowledges Answer = iota
	// Silent means that the node did not answer: it may have applied the mutations.
	Silent
	// Disowns means that the node does not consider itself a replica. It has applied nothing.
	Disowns
	// Refuses means that the node answered with an error, for the reason in the event.
	Refuses
)

// Event is an input of a Machine.
type Event struct {
	Kind   EventKind
	Answer Answer        // Answered, Hinted
	Reason uint16        // of Refuses, as clients receive it
	Plan   int32         // Hinted: the plan of the Hint
	Target *Target       // Answered, Hinted
	Now    time.Duration // Begun, Resumed; monotonic
}

// EffectKind is the kind of an Effect.
type EffectKind uint8

const (
	// Send sends Target its mutations. Its event is Answered.
	Send EffectKind = iota
	// Apply is Send to this node. It is the last effect of a step, so that other nodes work concurrently.
	Apply
	// Hint stores the mutations of Target until the node receives them. Its event is Hinted if AwaitsHints.
	Hint
	// Note records the answer of Target in the request's trace.
	Note
	// Reply answers the client with Outcome. It happens once.
	Reply
	// Arm sets the timer of the deadline.
	Arm
	// Pause waits for a node's first heartbeat. Its event is Resumed.
	Pause
	// Replan waits for a newer topology. Its event is Resumed.
	Replan
)

// Effect is an output of a Machine, which the shell performs without the lock. It is small, because it is copied for
// each request of a write.
type Effect struct {
	Kind   EffectKind
	Plan   int32         // Hint
	Target *Target       // Send, Apply, Hint, Note
	After  time.Duration // Arm, Pause, Replan
}

// OutcomeKind is the kind of an Outcome.
type OutcomeKind uint8

const (
	// Success means that the level was met.
	Success OutcomeKind = iota
	// Timeout means that too few nodes answered in time.
	Timeout
	// Failure means that nodes answered with errors.
	Failure
	// Unavailable means that too few replicas were alive. Nothing was sent.
	Unavailable
	// UnknownTable means that the table was dropped. Nothing was sent.
	UnknownTable
)

// Outcome is the result of a write for the client.
type Outcome struct {
	Kind     OutcomeKind
	Received int // Timeout, Failure: acknowledgements; Unavailable: live replicas
	Required int
	Failures []NodeFailure    // Failure
	Table    schema.StorageID // UnknownTable
}

// NodeFailure is the error of a node.
type NodeFailure struct {
	Node   ring.NodeID
	Reason uint16
}
