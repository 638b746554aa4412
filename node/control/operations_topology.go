package control

// What changes the ring or brings replicas together.
var (
	Repair       = Operation[RepairArgs, RepairResult]{"repair"}
	Decommission = Operation[ForceArgs, Departure]{"decommission"}
	RemoveNode   = Operation[NodeArgs, None]{"removenode"}
	Move         = Operation[MoveArgs, None]{"move"}
	Rebuild      = Operation[RebuildArgs, None]{"rebuild"}
	Abort        = Operation[AbortArgs, Departure]{"abort"}
	Operations   = Operation[None, Changes]{"operations"}
)

// RepairArgs say what is repaired: some tables of a keyspace, or all.
type RepairArgs struct {
	TablesArgs
	Corrupted bool `json:"corrupted,omitempty"` // only what lay in corrupt files of this node
}

// RepairResult is what a repair did.
type RepairResult struct {
	Ranges    int   `json:"ranges"`
	Different int   `json:"different"` // ranges that were not equal everywhere
	Rows      int64 `json:"rows"`      // sent between replicas
	Bytes     int64 `json:"bytes"`
	Skipped   int   `json:"skipped"`   // ranges with a replica that is down
	Moving    int   `json:"moving"`    // ranges that change their replicas
	Forgotten int   `json:"forgotten"` // states of lightweight transactions, on all replicas
	Unpurged  int   `json:"unpurged"`  // ranges where that was not possible
	// LeftOut are tables (keyspace.table) that were dropped before they were repaired.
	LeftOut []string `json:"left_out,omitempty"`
}

// ForceArgs go on where something is in the way that an operator may decide about.
type ForceArgs struct {
	Force bool `json:"force,omitempty"`
}

// NodeArgs name a node by its host id, its number or its address.
type NodeArgs struct {
	Node  string `json:"node"`
	Force bool   `json:"force,omitempty"`
}

// MoveArgs are the tokens a node is to have.
type MoveArgs struct {
	Tokens []int64 `json:"tokens"`
	Force  bool    `json:"force,omitempty"` // also when these are fewer than the node has
}

// RebuildArgs say where data comes from; anywhere when empty.
type RebuildArgs struct {
	Datacenter string `json:"datacenter,omitempty"`
	Keyspace   string `json:"keyspace,omitempty"`
}

// AbortArgs name an operation by its id; zero is the only one under way.
type AbortArgs struct {
	Operation uint64 `json:"operation,omitempty"`
}

// Departure is the result of an operation that may make the node leave the ring.
type Departure struct {
	Left bool `json:"left"` // the node is not a member any more, and its process ends
}

// Changes are the operations that change the ring at this moment.
type Changes struct {
	Operations []Change `json:"operations"`
}

// Change is one of them.
type Change struct {
	ID       uint64 `json:"id"`
	Kind     string `json:"kind"`
	Phase    string `json:"phase"`
	Node     Member `json:"node"`
	Gaining  int    `json:"gaining"`  // nodes that must fetch data
	Streamed int    `json:"streamed"` // of those, how many have it
}
