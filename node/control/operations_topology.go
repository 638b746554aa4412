package control

// Operations that change the ring or synchronize replicas.
var (
	Repair       = Operation[RepairArgs, RepairResult]{Name: "repair", Changes: true}
	Decommission = Operation[ForceArgs, Departure]{Name: "decommission", Changes: true}
	RemoveNode   = Operation[NodeArgs, Removal]{Name: "removenode", Changes: true}
	Move         = Operation[MoveArgs, None]{Name: "move", Changes: true}
	Rebuild      = Operation[RebuildArgs, None]{Name: "rebuild", Changes: true}
	SplitRange   = Operation[TokenArgs, None]{Name: "splitrange", Changes: true}
	MergeRange   = Operation[TokenArgs, None]{Name: "mergerange", Changes: true}
	MoveRange    = Operation[MoveRangeArgs, None]{Name: "moverange", Changes: true}
	Abort        = Operation[AbortArgs, Departure]{Name: "abort", Changes: true}
	Operations   = Operation[None, Changes]{Name: "operations"}
)

// RepairArgs select what is repaired: some tables of a keyspace, or all. At most one of the last three fields may be
// set: it restricts the repair to the replicas on these nodes.
type RepairArgs struct {
	TablesArgs
	Corrupted       bool     `json:"corrupted,omitempty"` // only data that was in corrupt files of this node
	LocalDatacenter bool     `json:"local_datacenter,omitempty"`
	Datacenters     []string `json:"datacenters,omitempty"`
	Hosts           []string `json:"hosts,omitempty"` // host ids, numbers or addresses
}

// Restricted reports whether only some replicas are repaired.
func (a *RepairArgs) Restricted() bool {
	return a.LocalDatacenter || len(a.Datacenters) > 0 || len(a.Hosts) > 0
}

// RepairResult describes the outcome of a repair.
type RepairResult struct {
	Ranges    int   `json:"ranges"`
	Different int   `json:"different"` // ranges in which replicas differed
	Rows      int64 `json:"rows"`      // sent between replicas
	Bytes     int64 `json:"bytes"`
	Skipped   int   `json:"skipped"`   // ranges with a replica that is down
	Moving    int   `json:"moving"`    // ranges that change their replicas
	Forgotten int   `json:"forgotten"` // Paxos states removed, on all replicas
	Unpurged  int   `json:"unpurged"`  // ranges where that was not possible
	// LeftOut are tables (keyspace.table) that were dropped before they were repaired.
	LeftOut []string `json:"left_out,omitempty"`
}

// ForceArgs override checks that an operator may override.
type ForceArgs struct {
	Force bool `json:"force,omitempty"`
}

// NodeArgs name a node by its host id, its number or its address.
type NodeArgs struct {
	Node  string `json:"node"`
	Force bool   `json:"force,omitempty"`
}

// MoveArgs are the new tokens of a node.
type MoveArgs struct {
	Tokens []int64 `json:"tokens"`
	Force  bool    `json:"force,omitempty"` // also if these are fewer than the node has now
}

// TokenArgs name a range by its end, or a place in it at which it is divided.
type TokenArgs struct {
	Token int64 `json:"token"`
}

// MoveRangeArgs name ranges by their ends, and the node that will own these tokens: its host id, number or address.
type MoveRangeArgs struct {
	Tokens []int64 `json:"tokens"`
	To     string  `json:"to"`
}

// RebuildArgs select the source of the data. Empty means any.
type RebuildArgs struct {
	Datacenter string `json:"datacenter,omitempty"`
	Keyspace   string `json:"keyspace,omitempty"`
}

// AbortArgs name an operation by its id. Zero means the only operation in progress.
type AbortArgs struct {
	Operation uint64 `json:"operation,omitempty"`
}

// Departure is the result of an operation that may make the node leave the ring.
type Departure struct {
	Left bool `json:"left"` // the node is no longer a member, and its process ends
}

// Removal is the result of a removal: what nodes lack of the ranges that they took over. A repair copies it. Empty
// means that nothing is missing.
type Removal struct {
	Missing []Missing `json:"missing,omitempty"`
}

// Missing counts the ranges of a keyspace that a node gained without all their data.
type Missing struct {
	Node     string `json:"node"` // its address
	Keyspace string `json:"keyspace"`
	Ranges   int    `json:"ranges"`
}

// Changes are the ring operations in progress.
type Changes struct {
	Operations []Change `json:"operations"`
}

// Change is a ring operation in progress. It is the view of the queried node, whose metadata log may lag.
type Change struct {
	ID       uint64 `json:"id"`
	Kind     string `json:"kind"`
	Phase    string `json:"phase"`
	Node     Member `json:"node"`
	Gaining  int    `json:"gaining"`  // nodes that must receive data
	Streamed int    `json:"streamed"` // of those, the nodes that have received it
	Waits    string `json:"waits"`    // what the operation waits for
}
