package control

import "time"

// The operations, by subject. Package node/admin implements them, cmd/cqld/ctl shows their results, and
// docs/OPERATING.md describes all of them.
var (
	// The ring from the view of the queried node.
	StatusOf        = Operation[KeyspaceArgs, Status]{Name: "status"}
	TokensOf        = Operation[KeyspaceArgs, Tokens]{Name: "ring"}
	DescribeCluster = Operation[None, Cluster]{Name: "describecluster"}
	DescribeRing    = Operation[KeyspaceArgs, Ranges]{Name: "describering"}
	EndpointsOf     = Operation[EndpointsArgs, Endpoints]{Name: "getendpoints"}

	// The queried node.
	InfoOf = Operation[None, Info]{Name: "info"}
)

// KeyspaceArgs name a keyspace. Some operations accept an empty name.
type KeyspaceArgs struct {
	Keyspace string `json:"keyspace,omitempty"`
}

// Member is a node from the view of the queried node. Fields that a node has to report itself, such as Load, may be
// missing if it is down.
type Member struct {
	ID         uint64  `json:"id"`
	HostID     string  `json:"host_id"`
	Address    string  `json:"address"` // for other nodes, with the port
	Native     string  `json:"native"`  // for CQL clients
	Datacenter string  `json:"datacenter"`
	Rack       string  `json:"rack"`
	Up         bool    `json:"up"`
	State      string  `json:"state"` // Normal, Joining, Leaving, Moving
	Tokens     int     `json:"tokens"`
	Load       *int64  `json:"load"` // bytes on disk; nil: not reported
	Owns       float64 `json:"owns"` // part of the ring; includes replicas if Status.Effective
	// ClockAhead is how far the node's clock is ahead of most others. Zero means that they agree, or that the node has
	// not reported it.
	ClockAhead time.Duration `json:"clock_ahead_ns"`
	// ClockRefuses means that the node does not serve clients because of its clock.
	ClockRefuses bool `json:"clock_refuses,omitempty"`
	// Voter means that the node votes on the metadata, and Leader that it leads the voters.
	Voter  bool `json:"voter,omitempty"`
	Leader bool `json:"leader,omitempty"`
}

// Status describes all members.
type Status struct {
	Members []Member `json:"members"`
	// Effective means that Owns includes the replicas of a keyspace's replication. Uneven means that no keyspace was
	// named and the replications of the keyspaces differ; Owns then counts first replicas only.
	Effective bool `json:"effective"`
	Uneven    bool `json:"uneven"`
	// Overdue are the schedules of backups without a recent backup, by name. A schedule is missing if the node that
	// executes it does not answer.
	Overdue []OverdueSchedule `json:"overdue_schedules,omitempty"`
}

// OverdueSchedule is a schedule whose last good backup is older than two intervals.
type OverdueSchedule struct {
	Name string    `json:"name"`
	Last time.Time `json:"last"` // of the last good backup, or of the creation of the schedule
}

// Token is a token and its owner.
type Token struct {
	Token  int64 `json:"token"`
	Member int   `json:"member"` // index in Tokens.Members
}

// Tokens are all tokens in the order of the ring. Members are not repeated for each token, because a node has many.
type Tokens struct {
	Status
	Tokens []Token `json:"tokens"`
}

// Cluster is the state that the cluster has agreed on. Epoch is the position in the metadata log up to which the
// queried node has applied it.
type Cluster struct {
	Name        string `json:"name"`
	Partitioner string `json:"partitioner"`
	Epoch       uint64 `json:"epoch"`
	// version → nodes; UNREACHABLE for those that do not answer
	SchemaVersions map[string][]string `json:"schema_versions"`
	Versions       map[string][]string `json:"versions"` // build → nodes
	Members        []Member            `json:"members"`
	Keyspaces      []Keyspace          `json:"keyspaces"`
}

// Keyspace is a keyspace and its replication.
type Keyspace struct {
	Name        string `json:"name"`
	Replication string `json:"replication"`
}

// Range contains the tokens in (Start, End] and their replicas. Start is greater than End for the range that wraps
// around.
type Range struct {
	Start     int64    `json:"start_token"`
	End       int64    `json:"end_token"`
	Endpoints []Member `json:"endpoints"`
	// Pending are nodes that are becoming replicas: they receive writes already.
	Pending []Member `json:"pending,omitempty"`
}

// Ranges are the ranges of a keyspace.
type Ranges struct {
	SchemaVersion string  `json:"schema_version"`
	Ranges        []Range `json:"ranges"`
}

// EndpointsArgs name a partition. Its key consists of the partition key columns, joined by colons.
type EndpointsArgs struct {
	Keyspace string `json:"keyspace"`
	Table    string `json:"table"`
	Key      string `json:"key"`
}

// Endpoints are the replicas of a partition.
type Endpoints struct {
	Token     int64    `json:"token"`
	Endpoints []Member `json:"endpoints"`
	Pending   []Member `json:"pending,omitempty"`
}

// Info has the state and the metrics of a node. Sizes are in bytes. Counters start with the process.
type Info struct {
	Member
	Release string `json:"release_version"` // the version of Cassandra that clients see
	Version string `json:"version"`
	// ClusterVersion decides which formats and features the cluster uses. The build of this node supports the versions
	// from OldestVersion to NewestVersion.
	ClusterVersion int `json:"cluster_version"`
	OldestVersion  int `json:"oldest_version"`
	NewestVersion  int `json:"newest_version"`
	// Mode is the state of the node's own membership, in nodetool's words.
	Mode             string        `json:"mode"` // NORMAL, JOINING, LEAVING, MOVING, DRAINED, STARTING
	NativeActive     bool          `json:"native_transport_active"`
	Uptime           time.Duration `json:"uptime_ns"`
	Memory           Memory        `json:"memory"`
	HeapUsed         int64         `json:"heap_used"`
	HeapLimit        int64         `json:"heap_limit"` // 0: no limit
	Goroutines       int           `json:"goroutines"`
	Clients          int           `json:"clients"`
	CacheSize        int64         `json:"block_cache_size"`
	CacheCapacity    int64         `json:"block_cache_capacity"`
	CacheHits        int64         `json:"block_cache_hits"`
	CacheMisses      int64         `json:"block_cache_misses"`
	RowCacheSize     int64         `json:"row_cache_size"`
	RowCacheCapacity int64         `json:"row_cache_capacity"`
	RowCacheHits     int64         `json:"row_cache_hits"`
	RowCacheMisses   int64         `json:"row_cache_misses"`
	DiskFree         int64         `json:"disk_free"`
	DiskTotal        int64         `json:"disk_total"`
	DiskFull         bool          `json:"disk_full"` // writes are refused
	Corrupt          []string      `json:"corrupt_files"`
	Keys             []KeyUse      `json:"encryption_keys"` // nil: nothing is encrypted
	Hints            int           `json:"hints_pending"`   // records stored for other nodes
	ListOfTokens     []int64       `json:"token_list"`
	Internode        Internode     `json:"internode"`
	Voters           Voters        `json:"voters"`
}

// Voters describes the voters of the metadata. A majority of the voters is required for each change of the schema, of
// roles and of the ring.
type Voters struct {
	Voters   int    `json:"voters"`
	Alive    int    `json:"alive"`
	Required int    `json:"required"`          // for a decision
	Missing  string `json:"missing,omitempty"` // why no decision is possible; empty: a majority is alive
}

// Memory is the memory of a node, in bytes.
type Memory struct {
	Limit  int64        `json:"limit"`  // memory_limit, or the limit of a cgroup, or the machine's memory
	Source string       `json:"source"` // which of them
	Parts  []MemoryPart `json:"parts"`
	Heap   Heap         `json:"heap"`
	// Sum is what the parts use. The kernel counts Resident for the process, and Cgroup for its cgroup, with the page
	// cache. Zero means unknown.
	Sum      int64 `json:"sum"`
	Resident int64 `json:"resident"`
	Cgroup   int64 `json:"cgroup"`
}

// MemoryPart is a part of the memory of a node. Bound is its share of Memory.Limit, Used the current use.
type MemoryPart struct {
	Name  string `json:"name"`
	Bound int64  `json:"bound"`
	Used  int64  `json:"used"`
}

// Heap is the memory that Go's runtime has of the operating system. The classes are exclusive, except Live, which is
// from the last collection and not part of the total.
type Heap struct {
	Live     int64 `json:"live"`    // what the last collection has found in use
	Objects  int64 `json:"objects"` // with garbage that is not collected yet
	Unused   int64 `json:"unused"`  // free space between objects
	Free     int64 `json:"free"`    // not returned to the operating system yet
	Stacks   int64 `json:"stacks"`
	Metadata int64 `json:"metadata"` // of the allocator and others
}

// Total returns the sum of all classes.
func (h *Heap) Total() int64 { return h.Objects + h.Unused + h.Free + h.Stacks + h.Metadata }

// Internode describes the connections between a node and the others. It counts connections that are open now.
type Internode struct {
	// of server_encryption_options: none, rack, dc or all; ", optional" may follow
	Encryption  string `json:"encryption"`
	Certificate string `json:"certificate"` // when it expires, in the format of RFC 3339; empty without encryption
	// Connections that other nodes opened, and that this node opened, and how many of them are encrypted.
	From          int `json:"from"`
	FromEncrypted int `json:"from_encrypted"`
	To            int `json:"to"`
	ToEncrypted   int `json:"to_encrypted"`
}
