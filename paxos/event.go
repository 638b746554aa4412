package paxos

import (
	"time"

	"cqld/coordinator"
	"cqld/paxos/ballot"
	"cqld/paxos/contention"
	"cqld/ring"
	"cqld/row"
)

// eventKind is the kind of an event of a round.
type eventKind uint8

const (
	eventBegun     eventKind = iota // the round is the first of its queue
	eventPromised                   // an acceptor answered prepare
	eventBrought                    // an acceptor answered a missing commit
	eventRead                       // the read at a quorum ended
	eventEvaluated                  // the conditions were evaluated
	eventAccepted                   // an acceptor answered the proposal
	eventCommitted                  // the write of the decided change ended
	eventAlone                      // the step of an only voter ended
	eventGranted                    // the arbiter granted the turn
	eventNoTurn                     // the request for the turn failed
	eventAlarm                      // the time of the alarm is over
	eventCanceled                   // the request of a member was canceled
	eventPanicked                   // an event or an effect panicked
)

// event is an input of a machine. A step must copy whatever it retains.
type event struct {
	kind    eventKind
	now     time.Duration   // monotonic
	attempt int             // answers to earlier attempts are ignored; of eventGranted and eventNoTurn, the request
	node    ring.NodeID     // the acceptor or arbiter that answered
	promise *ballot.Promise // eventPromised: nil if there is an error
	refused ballot.Ballot   // eventAccepted: the ballot that the acceptor has promised instead
	page    []byte          // eventRead
	verdict verdict         // eventEvaluated, eventAlone
	turn    contention.Turn
	alarm   int     // eventAlarm: its number
	member  *member // eventCanceled
	err     error
}

// effectKind is the kind of an effect of a step.
type effectKind uint8

const (
	effectPrepare  effectKind = iota // ask nodes for promises
	effectPropose                    // send the proposal to nodes
	effectBring                      // send the missing commit to nodes
	effectRead                       // read at a quorum, with repairs
	effectEvaluate                   // evaluate the conditions of the members
	effectCommit                     // write the decided change to all replicas
	effectAlone                      // let this node's acceptor decide
	effectAskTurn                    // ask the arbiter for the partition's turn
	effectPassTurn                   // return a turn to its arbiter
	effectAnswer                     // answer members
	effectNote                       // add a line to the trace
	effectLeave                      // start the next round of the partition
)

// effect is an output of a machine, which the round performs without its lock. It contains everything that performing
// it needs, because the machine may have moved on by then.
type effect struct {
	kind     effectKind
	attempt  int           // of effectAskTurn, the number of the request
	nodes    []ring.NodeID // this node last, because it may answer before the request returns
	epoch    uint64
	ballot   ballot.Ballot
	previous ballot.Ballot
	proposal *ballot.Proposal
	accepted []ring.NodeID // effectCommit: nodes that have the proposal, or have been sent it
	level    ring.Consistency
	timeout  time.Duration
	cmd      *row.ReadCommand
	question *question // effectEvaluate
	answers  []answer
	cause    Cause // effectAnswer: of time-outs
	turn     contention.Turn
	text     string // effectNote
	trace    coordinator.Trace
}

// answer is the answer to a member.
type answer struct {
	member *member
	outcome
	uncounted bool // the error is no failure: the request was canceled
}

// stepEffects is the number of effects of a step that fit on the stack. A commit at ANY with its notes has the most.
const stepEffects = 4
