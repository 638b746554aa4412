package config

import (
	"net/netip"
	"time"

	"cqld/azuretables"
	"cqld/internal/memory"
	"cqld/ring"
	"cqld/udf/value"
)

// Listen configures the addresses and ports of a node. The zero value is not valid; Default has the addresses of this
// machine. The socket of the control port has no address here: its path is in DataDir.
type Listen struct {
	Address     netip.Addr // for other nodes: listen_address
	StoragePort uint16     // of Address: storage_port
	RPCAddress  netip.Addr // for CQL clients
	NativePort  uint16     // native_transport_port
	// BroadcastRPCAddress is the address that the node advertises to clients. If it is not valid, that is RPCAddress.
	BroadcastRPCAddress netip.Addr
	// Whether the option was set decides whether ApplyDevelopment may replace it.
	rpcSet bool // rpc_address was set
	// AllowInsecure permits addresses that other machines can reach although nodes or clients are not authenticated or
	// not encrypted: allow_insecure_listen_addresses.
	AllowInsecure bool
	// Name and RPCName are the host names from which ResolveNames determines Address and RPCAddress; empty: none.
	Name, RPCName string
	LookupHost    LookupHost // nil: the resolver of the machine

	ControlAddress netip.AddrPort // of the control port, in addition to its socket; closed if not valid
	ControlSocket  bool           // of the control port in DataDir, which then must be a directory of the machine
	// HealthAddress is the address of the probes of a supervisor; closed if not valid.
	HealthAddress netip.AddrPort
}

// Join configures how a node becomes a member. The fields apply when the node joins, and later ones have no effect. A
// member that starts again finds its tokens, its id and its peers in the metadata on its disk.
type Join struct {
	// NumTokens is from 1 to 1024, and compared with the tokens of a member that starts again.
	NumTokens int // number of tokens of this node: num_tokens
	// Tokens are the tokens of this node when it joins: initial_token. If there are none, the cluster chooses them.
	Tokens []ring.Token
	Seeds  []netip.AddrPort
	// SeedNames replace Seeds if some are host names, NAME:PORT. They are looked up before each attempt to join.
	SeedNames []string
	// Replace is the address or host id of the dead node that this node replaces at its first start. If it is empty,
	// the node joins as an additional one.
	Replace string
}

// Ports configures TLS of all ports. A port has its own certificates, because operators, clients and nodes may have
// different authorities. Azure Tables clients use Clients without certificates of their own (node.tablesPolicy).
type Ports struct {
	// Each section that is used must be complete, whatever the other ones have.
	Clients   Encryption          // of the ports for CQL and Azure Tables clients
	Internode InternodeEncryption // of the port for other nodes
	Control   Encryption          // of ControlAddress, which serves only clients with certificates
}

// CommitLog determines when writes are acknowledged. Sync is about one node: other replicas acknowledge a write on
// their own. SyncPeriod also bounds what a crash of this machine can lose with SyncPeriodic.
type CommitLog struct {
	// Sync has no effect on tables whose writes always wait for the disk, such as counters.
	Sync       CommitLogSync
	SyncPeriod time.Duration // of SyncPeriodic
	// Archive is the location of backups where the node stores its log continuously; empty means nowhere: backup_log.
	Archive string
	// ArchiveSpace bounds the bytes of the log that are kept on disk until they are stored: backup_log_space.
	ArchiveSpace int64
}

// Memory configures the memory of a node. DivideMemory sets Division, and the following fields that are zero. All sizes
// are in bytes. CacheBytes and MemTableBytes that the configuration sets are subtracted before the rest is divided.
type Memory struct {
	// Limit bounds the memory of the node: memory_limit. Zero means the limit of the cgroup, or the machine's memory.
	Limit            int64
	Division         memory.Division
	CacheBytes       int64 // of the cache of blocks: block_cache_size
	RowCacheBytes    int64 // of the cache of rows: point_read_cache_size; zero: none, negative: a share of Division
	MemTableBytes    int64 // of the memtables: memtable_heap_space
	VectorGraphBytes int64 // of the graph of one index of vectors; zero: no graphs, negative: a share of Division
}

// Timeouts bound the time of requests. They are the coordinator's waits for replicas, and all of them are positive. A
// client may wait longer than one of them: paging, retries of a conditional update and the wait for a worker come on
// top.
type Timeouts struct {
	Read     time.Duration // of rows of one partition
	Range    time.Duration // of a range of partitions
	Write    time.Duration // of a mutation at its replicas
	CAS      time.Duration // of conditional updates under contention: cas_contention_timeout
	Counter  time.Duration // of a counter update
	Truncate time.Duration // of a truncation, at all nodes
}

// Background configures the work that no request waits for. Throughputs are bytes per second.
type Background struct {
	HintWindow           time.Duration // how long hints are kept for a node that is down: max_hint_window
	IndexBuildThroughput int64         // of rows that builds of indexes read: index_build_throughput
	// Throughputs are at least 64 KiB per second.
	StreamThroughput   int64         // sent for range movements: stream_throughput_outbound
	AutoRepair         bool          // repair in the background: auto_repair_enabled
	AutoRepairInterval time.Duration // for each table: auto_repair_min_repair_interval
	RepairThroughput   int64         // that replicas scan for this node's repairs: auto_repair_throughput
}

// Snapshots configures the snapshots that a node makes by itself.
type Snapshots struct {
	Auto    bool          // before TRUNCATE and DROP remove data: auto_snapshot
	autoSet bool          // auto_snapshot was set
	TTL     time.Duration // after which the node removes these; 0 means never: auto_snapshot_ttl
}

// Functions configures user-defined functions. With Enabled false, existing functions cannot be called either, as in
// Cassandra.
type Functions struct {
	Enabled bool         // users may define and call functions: user_defined_functions_enabled
	Limits  value.Limits // of one call: user_defined_functions_…
}

// Requests bounds the requests of CQL clients. Sizes are in bytes. MaxFrameBytes 0 means that DivideMemory sets it.
type Requests struct {
	MaxFrameBytes      int           // of one request: native_transport_max_frame_size
	BatchWarnBytes     int           // a larger batch causes a warning: batch_size_warn_threshold
	BatchFailBytes     int           // a larger batch is refused: batch_size_fail_threshold
	MaxTimestampAhead  time.Duration // maximum_timestamp_fail_threshold
	WarnTimestampAhead time.Duration // maximum_timestamp_warn_threshold
	MaxClients         int           // connections; 0: the server's default
	NodeLocal          bool          // NODE_LOCAL is accepted: allow_nodelocal_consistency
}

// Tables configures the server of Azure Tables. The options have the prefix tables_. A negative number is invalid in
// every field. The names of the options begin with tables_, because Cassandra has none for it.
type Tables struct {
	Port uint16 // on RPCAddress; 0: closed
	// Accounts are the accounts of the server. The accounts in the cluster's metadata are served as well. If there are
	// none, the development account is, on a loopback address.
	Accounts []azuretables.Account
	// Consistency is the consistency of requests of accounts without their own: QUORUM or LOCAL_QUORUM.
	Consistency string
	// Hosts are the host names, in addition to localhost, under which the development account is served. Clients may
	// always use IP addresses.
	Hosts []string
	// PartitionTarget and AccountTarget are the rates, in entities per second, above which the server throttles a
	// partition or an account. 0 means no limit.
	PartitionTarget, AccountTarget int
	// Limits of requests and of all connections. 0 means the limits of the Azure service.
	MaxConnections, MaxProperties, MaxEntityBytes, MaxBatchOperations int
}
