package rebalance

import (
	"cqld/repair"
	"cqld/ring"
)

// moveEventKind is the kind of an event of Movements.
type moveEventKind uint8

const (
	// moveReconciled is a call of Reconcile.
	moveReconciled moveEventKind = iota
	// moveStreamed is the end of a session, or of a part of it.
	moveStreamed
	// moveProgressed is a block of a session.
	moveProgressed
	// moveHashed is the answer to a step of a comparison.
	moveHashed
	// moveReported is the answer of the metadata log to a report.
	moveReported
	// moveResumed is the end of a movement's pause.
	moveResumed
	// moveHandedOver is the end of the hand-over, or of the pause before its report is repeated.
	moveHandedOver
	// moveStopped is a call of Close.
	moveStopped
)

// moveEvent is an input of a moveMachine.
type moveEvent struct {
	kind      moveEventKind
	now       int64          // seconds since 1970
	topology  *ring.Topology // reconciled
	movement  *movement      // streamed, progressed, hashed, reported, resumed
	task      *moveTask      // streamed, hashed
	number    uint64         // of the effect: streamed, hashed, reported, resumed
	session   string         // progressed
	bytes     int64          // progressed: in total
	hashes    repair.HashStep
	operation uint64 // handedOver
	err       error  // streamed, hashed, reported, handedOver
}

// moveEffectKind is the kind of an effect of Movements.
type moveEffectKind uint8

const (
	// effectStream starts a session. Its event is moveStreamed.
	effectStream moveEffectKind = iota
	// effectHash requests hashes of a node. Its event is moveHashed.
	effectHash
	// effectForget ends sessions, and removes their records.
	effectForget
	// effectReport reports to the metadata log that this node has all its ranges. Its event is moveReported.
	effectReport
	// effectPause delivers moveResumed after movementRetry.
	effectPause
	// effectNote reports to the operator.
	effectNote
	// effectHandOver transfers the data that this node stores for others. Its event is moveHandedOver.
	effectHandOver
	// effectHanded reports the end of the hand-over to the metadata log. After a failure its event is moveHandedOver.
	effectHanded
)

// moveEffect is an output of a moveMachine.
type moveEffect struct {
	kind      moveEffectKind
	movement  *movement           // stream, hash, forget, report, pause
	task      *moveTask           // stream, hash
	number    uint64              // stream, hash, report, pause
	session   Session             // stream
	sessions  []string            // forget
	node      ring.NodeID         // hash
	request   *repair.HashRequest // hash
	short     []ring.Shortfall    // report
	note      string              // note
	operation uint64              // handOver, handed
}
