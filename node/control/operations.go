package control

import "time"

// The operations, by what they are about. The node's ops files do them, cmd/cqld/ctl shows them;
// docs/OPERATING.md has them all.
var (
	// The ring, as the node that is asked sees it.
	StatusOf        = Operation[KeyspaceArgs, Status]{"status"}
	TokensOf        = Operation[KeyspaceArgs, Tokens]{"ring"}
	DescribeCluster = Operation[None, Cluster]{"describecluster"}
	DescribeRing    = Operation[KeyspaceArgs, Ranges]{"describering"}
	EndpointsOf     = Operation[EndpointsArgs, Endpoints]{"getendpoints"}

	// The node that is asked.
	InfoOf = Operation[None, Info]{"info"}
)

// KeyspaceArgs name a keyspace; empty where that may be.
type KeyspaceArgs struct {
	Keyspace string `json:"keyspace,omitempty"`
}

// Member is a node as the one that is asked sees it.
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
	Load       *int64  `json:"load"` // bytes on disk; nil: it did not say
	Owns       float64 `json:"owns"` // part of the ring, replicas counted when Status.Effective
	// ClockAhead is how far the node's clock is before those of most others; zero: they agree, or it did not say.
	ClockAhead time.Duration `json:"clock_ahead_ns"`
	// ClockRefuses says that the node does not serve clients because of its clock.
	ClockRefuses bool `json:"clock_refuses,omitempty"`
}

// Status is all members.
type Status struct {
	Members []Member `json:"members"`
	// Effective says that Owns counts replicas under a keyspace's replication, Uneven that the keyspaces
	// differ and none was named: then Owns counts first replicas only.
	Effective bool `json:"effective"`
	Uneven    bool `json:"uneven"`
}

// Token is one token and who owns it.
type Token struct {
	Token  int64 `json:"token"`
	Member int   `json:"member"` // index in Tokens.Members
}

// Tokens is every token, in the order of the ring.
type Tokens struct {
	Status
	Tokens []Token `json:"tokens"`
}

// Cluster is what the cluster has agreed on.
type Cluster struct {
	Name           string              `json:"name"`
	Partitioner    string              `json:"partitioner"`
	Epoch          uint64              `json:"epoch"`
	SchemaVersions map[string][]string `json:"schema_versions"` // version → nodes; UNREACHABLE for those that do not answer
	Versions       map[string][]string `json:"versions"`        // build → nodes
	Members        []Member            `json:"members"`
	Keyspaces      []Keyspace          `json:"keyspaces"`
}

// Keyspace is a keyspace and how it replicates.
type Keyspace struct {
	Name        string `json:"name"`
	Replication string `json:"replication"`
}

// Range is the tokens in (Start, End] and who holds them.
type Range struct {
	Start     int64    `json:"start_token"`
	End       int64    `json:"end_token"`
	Endpoints []Member `json:"endpoints"`
	Pending   []Member `json:"pending,omitempty"`
}

// Ranges are the ranges of a keyspace.
type Ranges struct {
	SchemaVersion string  `json:"schema_version"`
	Ranges        []Range `json:"ranges"`
}

// EndpointsArgs name a partition: its key as the columns of a partition key joined by colons.
type EndpointsArgs struct {
	Keyspace string `json:"keyspace"`
	Table    string `json:"table"`
	Key      string `json:"key"`
}

// Endpoints is who holds a partition.
type Endpoints struct {
	Token     int64    `json:"token"`
	Endpoints []Member `json:"endpoints"`
	Pending   []Member `json:"pending,omitempty"`
}

// Info is a node's figures.
type Info struct {
	Member
	Release       string        `json:"release_version"` // Cassandra's that clients are told
	Version       string        `json:"version"`
	Mode          string        `json:"mode"` // NORMAL, JOINING, LEAVING, MOVING, DRAINED
	NativeActive  bool          `json:"native_transport_active"`
	Uptime        time.Duration `json:"uptime_ns"`
	HeapUsed      int64         `json:"heap_used"`
	HeapLimit     int64         `json:"heap_limit"` // 0: none is set
	OutsideHeap   int64         `json:"outside_heap"`
	Goroutines    int           `json:"goroutines"`
	Clients       int           `json:"clients"`
	CacheSize     int64         `json:"block_cache_size"`
	CacheCapacity int64         `json:"block_cache_capacity"`
	CacheHits     int64         `json:"block_cache_hits"`
	CacheMisses   int64         `json:"block_cache_misses"`
	DiskFree      int64         `json:"disk_free"`
	DiskTotal     int64         `json:"disk_total"`
	DiskFull      bool          `json:"disk_full"` // writes are refused
	Corrupt       []string      `json:"corrupt_files"`
	Hints         int           `json:"hints_pending"` // records for other nodes
	ListOfTokens  []int64       `json:"token_list"`
}
