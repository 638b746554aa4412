package balance

import (
	"time"

	"cqld/ring"
	"cqld/ring/load"
)

// Input is what a plan depends on. Plan does not change it.
type Input struct {
	Topology *ring.Topology
	// Replications are the different ones of the keyspaces whose data the steps move.
	Replications []ring.Replication
	Load         load.Cluster
	// Weights are the capacities of nodes relative to others. A node without one has 1; a node with 0 receives nothing.
	Weights map[ring.NodeID]float64
	// Alive are the nodes that may receive, or lose, ranges.
	Alive map[ring.NodeID]bool
	// Recent has the time of the last transfer of each token, and Now is the time of the plan on the same clock.
	Recent map[ring.Token]time.Duration
	Now    time.Duration
}

// Options bound a plan.
type Options struct {
	// Threshold is the deviation of a node from its share, 0.1 for 10 %, below which nothing moves.
	Threshold float64
	// GainMin is the least reduction of the sum of squared deviations for which a step is worth its cost.
	GainMin float64
	// BytesMax bounds the bytes that the steps of one plan move, and StepsMax their number.
	BytesMax int64
	StepsMax int
	// Rest is the time for which a token stays with its new owner.
	Rest time.Duration
	// TokensMin and TokensMax bound the tokens of a node.
	TokensMin, TokensMax int
}

// DefaultOptions returns the options that the simulation is run with.
func DefaultOptions() Options {
	return Options{Threshold: 0.1, GainMin: 0.001, BytesMax: 64 << 30, StepsMax: 8, Rest: 10 * time.Minute,
		TokensMin: 8, TokensMax: 64}
}

// Change is what a step is expected to change on one node.
type Change struct {
	Node   ring.NodeID
	Charge float64 // per second, average over 2 min
	Bytes  int64
	Ranges int
}

// Step is a change of the ring that a plan proposes. Steps of one plan change the replicas of different ranges.
type Step struct {
	Transfer ring.Transfer
	Reason   string
	Changes  []Change // by node
	Bytes    int64    // that nodes receive
}

// Rejection is a candidate that is not planned.
type Rejection struct {
	Transfer ring.Transfer // zero if the reason concerns the whole plan
	Reason   string
}

// Share is the load of a node at the time of a plan. Want is the charge, and WantBytes the bytes, that it should have.
type Share struct {
	Node         ring.NodeID
	Charge, Want float64
	Bytes        int64
	WantBytes    int64
	Tokens       int
	Weight       float64
	// Deviation is how far charge or bytes, whichever is farther, is above the share: 0.1 is 10 %.
	Deviation float64
}
