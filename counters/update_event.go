package counters

import (
	"time"

	"cqld/coordinator"
	"cqld/ring"
)

// updateEventKind is the kind of an updateEvent.
type updateEventKind uint8

const (
	// updateBegun is the first event.
	updateBegun updateEventKind = iota
	// updateAnswered is the answer of the node of an updateLead, or its failure.
	updateAnswered
	// updateResumed is the end of an updatePause.
	updateResumed
	// updateTicked is the deadline.
	updateTicked
)

// updateEvent is an input of an updating.
type updateEvent struct {
	kind   updateEventKind
	number uint32        // answered, resumed: the number of the effect that the event follows
	after  time.Duration // begun: until the deadline
	// topology is the current topology, from which a plan is derived; nil if the answer is a success.
	topology *ring.Topology
	err      error // answered
	// arrives means that err will not last: a node that has just been admitted sends its first heartbeat soon.
	arrives bool
}

// updateEffectKind is the kind of an updateEffect.
type updateEffectKind uint8

const (
	// updateLead asks a node to lead the update. Its event is updateAnswered.
	updateLead updateEffectKind = iota
	// updateArm sets the timer of the deadline. Its event is updateTicked.
	updateArm
	// updatePause waits for a newer topology, or for a node's first heartbeat. Its event is updateResumed.
	updatePause
	// updateNote counts an event of this node.
	updateNote
	// updateReply answers the client. It happens once, and no event has an effect after it.
	updateReply
)

// updateEffect is an output of an updating.
type updateEffect struct {
	kind   updateEffectKind
	note   coordinator.Event // note
	number uint32            // lead, pause: the number of the awaited event
	node   ring.NodeID       // lead
	epoch  uint64            // lead: of the topology of the plan
	after  time.Duration     // arm, pause
	err    error             // reply
}

// updateEffects is the number of effects of a usual step, which need no allocation: a request and the timer.
const updateEffects = 2
