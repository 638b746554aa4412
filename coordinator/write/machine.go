package write

import (
	"time"

	"cqld/coordinator/quorum"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// View provides the snapshots of schema, topology and liveness from which writes are planned.
type View interface {
	Self() ring.NodeID
	Schema() *schema.Schema
	Topology() *ring.Topology
	// Alive reports whether this node's failure detector considers the node alive.
	Alive(ring.NodeID) bool
}

// Config contains the settings shared by all writes of a coordinator. It must not change once a Machine uses it.
type Config struct {
	View            View
	LocalDatacenter string
	// Replicas returns the replicas of a token of a table in a topology.
	Replicas func(*ring.Topology, *schema.Table, ring.Token) ring.ReplicaSet
	PlansMax int // the plans of one write; 1 means that no write is planned again
	// HintsKept reports that hints are stored; SatisfyAny reports whether a stored hint satisfies ANY.
	HintsKept  bool
	SatisfyAny func() bool
	// AwaitingFirstHeartbeat reports whether a node of the ring has not sent its first heartbeat; nil means never.
	AwaitingFirstHeartbeat func() bool
	ArrivalPause           time.Duration // before a plan that waits for that heartbeat
	ReplanPause            time.Duration // before the second plan; it doubles with each plan
}

// TargetState is the state of a node in a write.
type TargetState uint8

const (
	// Open means that the node has not answered.
	Open TargetState = iota
	// Acked means that the node has its mutations.
	Acked
	// Failed means that the node answered with an error, did not answer, or is down.
	Failed
)

// Target is the share of one node in one plan of a write.
type Target struct {
	Node      ring.NodeID
	Mutations []*row.Mutation
	State     TargetState
	// Done belongs to the shell, which allocates it once: Targets are reused.
	Done func(error)

	alive  bool   // when it was planned
	hinted bool   // a hint was requested
	kept   bool   // the hint is on disk
	answer Answer // if Failed
	reason uint16 // if answer is Refuses
	plan   int
	parts  []int // indexes of Machine.parts, parallel to Mutations
}

// part is one mutation with its acknowledgements.
type part struct {
	tally quorum.Tally
	met   bool
}

// Machine is the state of one write. It may be reused after a write has ended. Step and the methods that it calls need
// the lock of the shell; the fields above parts do not change after Reset.
type Machine struct {
	config    *Config
	Mutations []*row.Mutation
	Level     ring.Consistency
	Self      ring.NodeID
	Deadline  time.Duration // monotonic
	// Applied means that this node has applied the mutations before.
	Applied bool
	// Traced means that the shell traces answers.
	Traced bool
	// Settles means that the write ends only when it is known which hints are on disk.
	Settles bool

	Topology *ring.Topology // of the present plan
	Answered bool           // the client was answered, with Outcome
	Outcome  Outcome

	parts   []part
	unmet   int // parts that are not met
	targets []*Target
	spare   []*Target // of earlier writes, for reuse
	waiting int       // answers and hints of the present plan that decide something and are outstanding
	open    int       // answers and hints of all plans that are outstanding
	plans   int       // the number of the present plan
	sent    bool      // a plan was sent
	pausing bool      // until Resumed
	refused bool      // a node of this plan does not consider itself a replica
	ended   bool      // no other plan follows
	checked bool      // the counts were checked when the client was answered
}

// Reset prepares the machine for a write of mutations, which it copies.
func (w *Machine) Reset(c *Config, mutations []*row.Mutation, level ring.Consistency) {
	w.config, w.Level = c, level
	w.Mutations = append(w.Mutations[:0], mutations...)
	w.Topology, w.Self = c.View.Topology(), c.View.Self()
	w.Applied, w.Traced, w.Settles = false, false, false
	w.Answered = false
	w.parts, w.unmet, w.waiting, w.open, w.plans = w.parts[:0], 0, 0, 0, 0
	w.sent, w.pausing, w.refused, w.ended, w.checked = false, false, false, false, false
}

// Clear drops references to the write's data, and keeps the memory for another write.
func (w *Machine) Clear() {
	clear(w.Mutations)
	for _, t := range w.targets {
		clear(t.Mutations)
		w.spare = append(w.spare, t)
	}
	w.targets, w.Topology = w.targets[:0], nil
	if w.Outcome.Kind != Success { // mostly, no memory needs to be cleared
		w.Outcome = Outcome{}
	}
}

// AwaitsHints reports whether the event Hinted follows a Hint.
func (w *Machine) AwaitsHints() bool { return w.Settles || w.Level == ring.Any }

// Decided reports whether no event of the present plan is awaited, so that the deadline has no effect.
func (w *Machine) Decided() bool { return w.Answered && w.waiting == 0 && !w.pausing }

// Idle reports whether no event but Ticked can follow: the client was answered, and nothing is outstanding.
func (w *Machine) Idle() bool { return w.Answered && w.open == 0 && !w.pausing }
