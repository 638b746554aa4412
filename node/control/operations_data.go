package control

import (
	"encoding/json"
	"time"
)

// Operations on the data and the services of a node.
var (
	StatsOfTables   = Operation[TablesArgs, TableStats]{Name: "tablestats"}
	HistogramsOf    = Operation[TableArgs, TableHistograms]{Name: "tablehistograms"}
	TopPartitions   = Operation[TopArgs, Top]{Name: "toppartitions"}
	StatsOfPools    = Operation[None, Pools]{Name: "tpstats"}
	CompactionStats = Operation[None, Compactions]{Name: "compactionstats"}
	NetStats        = Operation[None, Net]{Name: "netstats"}
	ClientStats     = Operation[None, Clients]{Name: "clientstats"}
	KillQuery       = Operation[QueryArgs, None]{Name: "killquery", Changes: true}
	Flush           = Operation[TablesArgs, None]{Name: "flush", Changes: true}
	Compact         = Operation[TablesArgs, None]{Name: "compact", Changes: true}
	Cleanup         = Operation[TablesArgs, None]{Name: "cleanup", Changes: true}
	VerifyFiles     = Operation[VerifyFilesArgs, VerifiedFiles]{Name: "verify", Changes: true}
	Drain           = Operation[None, None]{Name: "drain", Changes: true}
	StopDaemon      = Operation[None, None]{Name: "stopdaemon", Changes: true}
	TakeSnapshot    = Operation[SnapshotArgs, Snapshot]{Name: "snapshot", Changes: true}
	ListSnapshots   = Operation[None, Snapshots]{Name: "listsnapshots"}
	ClearSnapshot   = Operation[ClearArgs, Snapshots]{Name: "clearsnapshot", Changes: true}
	VerifySnapshot  = Operation[VerifyArgs, Verified]{Name: "verifysnapshot"}
	ShowSnapshot    = Operation[VerifyArgs, json.RawMessage]{Name: "showsnapshot"}
	Import          = Operation[ImportArgs, None]{Name: "import", Changes: true}
	BinaryOf        = Operation[None, Switch]{Name: "statusbinary"}
	ReadyOf         = Operation[None, Switch]{Name: "ready"}
	SetBinary       = Operation[Switch, Switch]{Name: "setbinary", Changes: true}
	HandoffOf       = Operation[None, Switch]{Name: "statushandoff"}
	SetHandoff      = Operation[Switch, Switch]{Name: "sethandoff", Changes: true}
	PendingHintsOf  = Operation[None, PendingHints]{Name: "listpendinghints"}
	TimeoutsOf      = Operation[None, Timeouts]{Name: "gettimeout"}
	SeedsOf         = Operation[None, Seeds]{Name: "getseeds"}
	LoggingLevelOf  = Operation[None, Logging]{Name: "getlogginglevels"}
	SetLoggingLevel = Operation[Logging, Logging]{Name: "setlogginglevel", Changes: true}
	RotateKeys      = Operation[RotateArgs, Rotated]{Name: "rotatekeys", Changes: true}
	ReloadSSL       = Operation[None, Certificates]{Name: "reloadssl", Changes: true}
)

// TablesArgs name tables: some tables of a keyspace, all tables of a keyspace, or all tables. Tables without a keyspace
// are invalid.
type TablesArgs struct {
	Keyspace string   `json:"keyspace,omitempty"`
	Tables   []string `json:"tables,omitempty"`
}

// VerifyFilesArgs name the tables whose files are read. Without tables, all files are read, also those with entries of
// indexes and with the node's own data.
type VerifyFilesArgs struct {
	TablesArgs
	// BytesPerSecond bounds the rate at which files are read; 0 means no bound.
	BytesPerSecond int64 `json:"bytes_per_second,omitempty"`
}

// VerifiedFiles is the result of a verification of the node's files. A resumed one counts the files of its last
// attempt.
type VerifiedFiles struct {
	Files   int      `json:"files"`
	Bytes   int64    `json:"bytes"`
	Corrupt []string `json:"corrupt,omitempty"` // paths
	// Unrepaired reports whether the node knows corrupt files, or ranges that were lost in one and are not repaired.
	// They need not be of this verification.
	Unrepaired bool `json:"unrepaired,omitempty"`
}

// KeyUse is how many files of a node one key of the encryption at rest encrypts, with snapshots.
type KeyUse struct {
	Key    string `json:"key"` // its id; "none": the files are in clear
	Newest bool   `json:"newest"`
	Files  int    `json:"files"`
	Bytes  int64  `json:"bytes"` // a file that snapshots link counts once for each
}

// RotateArgs configure a rotation of keys.
type RotateArgs struct {
	// BytesPerSecond bounds the rate at which files are rewritten; 0 means no bound.
	BytesPerSecond int64 `json:"bytes_per_second,omitempty"`
}

// Rotated is the state of the files after a rotation of keys.
type Rotated struct {
	Keys []KeyUse `json:"keys"`
}

// TableArgs name one table.
type TableArgs struct {
	Keyspace string `json:"keyspace"`
	Table    string `json:"table"`
}

// QueryArgs name a request in progress: by its thread_id in system_views.queries, or the number at the end of it.
type QueryArgs struct {
	ID string `json:"id"`
}

// TableStats are the statistics of tables on one node.
type TableStats struct {
	Tables []TableStat `json:"tables"`
	// Dropped are the tables that were dropped, themselves or with their keyspaces, and can be restored.
	Dropped      []DroppedStat `json:"dropped,omitempty"`
	MemTableSize int64         `json:"memtable_size"` // of all tables
	Flushes      int64         `json:"flushes"`
}

// TableStat has the statistics of one table on a node. Sizes are in bytes. Reads and writes are the node's own, as a
// replica, since its start.
type TableStat struct {
	Keyspace string `json:"keyspace"`
	Table    string `json:"table"`
	Bytes    int64  `json:"space_used"`
	Files    int    `json:"sstable_count"`
	Levels   []int  `json:"sstables_in_each_level"`
	MaxBytes int64  `json:"max_sstable_size"`
	// Partitions and MeanPartition are estimated from a sample. They include partitions that contain only tombstones.
	Partitions    int64 `json:"number_of_partitions_estimate"`
	MeanPartition int64 `json:"mean_partition_size"`

	Reads       int64         `json:"local_read_count"`
	Writes      int64         `json:"local_write_count"`
	ReadLatency time.Duration `json:"local_read_latency_mean_ns"` // zero: not measured
}

// DroppedStat has the space of a dropped table on a node.
type DroppedStat struct {
	Keyspace string `json:"keyspace"` // as statements named it
	// KeyspaceID is not zero if the keyspace was dropped. It selects one of several with UNDROP KEYSPACE … WITH id.
	KeyspaceID uint32 `json:"keyspace_id,omitempty"`
	Table      string `json:"table"`
	ID         string `json:"id"` // a UUID; it selects one of several with UNDROP TABLE … WITH id
	Bytes      int64  `json:"space_used"`
	// Until is the end of the grace: the rows are removed then. Both have a precision of seconds.
	Dropped time.Time `json:"dropped"`
	Until   time.Time `json:"restorable_until"`
}

// Percentiles of a duration. All are zero if nothing was measured. Count is the number of measured values.
type Percentiles struct {
	Count int64         `json:"count"`
	P50   time.Duration `json:"p50_ns"`
	P75   time.Duration `json:"p75_ns"`
	P95   time.Duration `json:"p95_ns"`
	P98   time.Duration `json:"p98_ns"`
	P99   time.Duration `json:"p99_ns"`
	Min   time.Duration `json:"min_ns"`
	Max   time.Duration `json:"max_ns"`
}

// TableHistograms are the latencies of a table's requests on this node.
type TableHistograms struct {
	TableArgs
	Read Percentiles `json:"read"` // one of eight reads is measured
}

// TopArgs configure toppartitions.
type TopArgs struct {
	TableArgs
	Duration time.Duration `json:"duration_ns"`
	Count    int           `json:"count"` // of partitions; 0 means 10
}

// Top contains the partitions with the most reads and writes.
type Top struct {
	TableArgs
	Reads  []TopPartition `json:"reads"`
	Writes []TopPartition `json:"writes"`
}

// TopPartition is a partition in Top.
type TopPartition struct {
	Key   string `json:"key"`
	Count int64  `json:"count"`
	Error int64  `json:"error"` // the maximum by which Count may be too large
}

// Pools shows the active and queued requests of a node, and those that it dropped.
type Pools struct {
	Pools   []Pool    `json:"pools"`
	Dropped []Dropped `json:"dropped"`
}

// Pool is a bounded pool of requests. ActiveMax 0 means that the pool only counts.
type Pool struct {
	Name      string `json:"name"`
	Active    int64  `json:"active"`
	ActiveMax int64  `json:"active_max"`
	Pending   int64  `json:"pending"`
	Completed int64  `json:"completed"`
	Refused   int64  `json:"refused"` // because the pool was full
}

// Dropped counts one kind of failure.
type Dropped struct {
	Kind  string `json:"kind"`
	Count int64  `json:"count"`
}

// Compactions is the state of the storage engine. Counters start with the process. Sizes are in bytes.
type Compactions struct {
	InProgress      int64 `json:"in_progress"`
	InProgressBytes int64 `json:"in_progress_bytes"`
	Debt            int64 `json:"debt"` // estimated bytes that remain to be compacted
	Completed       int64 `json:"completed"`
	Cancelled       int64 `json:"cancelled"`
	Failed          int64 `json:"failed"`
	BytesCompacted  int64 `json:"bytes_compacted"`
	Flushes         int64 `json:"flushes"`
	Stalls          int64 `json:"stalls"` // number of times that writes had to wait
	// Pauses are commits that waited 0.1 s or longer for a latch, a memtable or a new log; SlowSyncs those that waited
	// so long for the fsync of the log.
	Pauses             int64   `json:"pauses"`
	LongestPauseMillis int64   `json:"longest_pause_millis"`
	SlowSyncs          int64   `json:"slow_syncs"`
	LongestSyncMillis  int64   `json:"longest_sync_millis"`
	MemTables          int64   `json:"memtables"`
	MemTableBytes      int64   `json:"memtable_bytes"`
	LogBytes           int64   `json:"log_bytes"`
	Swept              int64   `json:"swept"`
	Purged             int64   `json:"purged"`
	Levels             []Level `json:"levels"`
	// Builds are the builds of indexes in progress.
	Builds []IndexBuild `json:"index_builds,omitempty"`
}

// Level is one level of the LSM tree.
type Level struct {
	Level     int     `json:"level"`
	Files     int64   `json:"sstables"`
	Bytes     int64   `json:"bytes"`
	Score     float64 `json:"score"` // a level is compacted if its score is 1 or more
	Sublevels int     `json:"sublevels"`
}

// Net is the traffic between nodes. HintBytes and HintBytesMax are the size of all stored hints and its limit.
type Net struct {
	Mode         string      `json:"mode"`
	Streams      []Stream    `json:"streams"`
	ReadRepair   ReadRepairs `json:"read_repair"`
	Hints        HintCounts  `json:"hints"`
	Peers        []PeerHints `json:"peers"`
	HintBytes    int64       `json:"hint_bytes"`
	HintBytesMax int64       `json:"hint_bytes_max"`
}

// Stream is a stream of data to or from this node. Total is an estimate; 0 means unknown.
type Stream struct {
	Peer    string `json:"peer"`
	Sending bool   `json:"sending"`
	What    string `json:"what"`
	Done    int64  `json:"done_bytes"`
	Total   int64  `json:"total_bytes"`
}

// ReadRepairs counts the read repairs of this coordinator.
type ReadRepairs struct {
	Mismatches int64 `json:"mismatches"`
	Repairs    int64 `json:"repairs"`
}

// HintCounts counts the hints of this coordinator. Tables with lost hints need a repair.
type HintCounts struct {
	Stored   int64 `json:"stored"`
	Replayed int64 `json:"replayed"`
	Expired  int64 `json:"expired"`
	Lost     int64 `json:"lost"`
}

// PeerHints are the hints stored for one node.
type PeerHints struct {
	Member
	Records int `json:"hint_records"`
}

// PendingHints are the hints stored for other nodes.
type PendingHints struct {
	Peers []PeerHints `json:"peers"`
}

// Clients are the CQL connections.
type Clients struct {
	Clients []Connection `json:"clients"`
}

// Connection is a connection of a CQL client. Requests counts since the connection was opened. User and Keyspace may be
// empty.
type Connection struct {
	Address  string `json:"address"`
	Stage    string `json:"stage"`
	User     string `json:"user"`
	Keyspace string `json:"keyspace"`
	Version  int    `json:"protocol_version"`
	Driver   string `json:"driver"`
	Requests int64  `json:"requests"`
	TLS      bool   `json:"tls"`
}

// SnapshotArgs select the content of a snapshot.
type SnapshotArgs struct {
	Tag       string   `json:"tag,omitempty"`       // if empty, the time in milliseconds since 1970
	Keyspaces []string `json:"keyspaces,omitempty"` // empty means all
}

// Snapshot is a copy of data at a point in time.
type Snapshot struct {
	Tag       string    `json:"tag"`
	Directory string    `json:"directory"`
	Keyspaces []string  `json:"keyspaces"`
	Created   time.Time `json:"created"`
	TrueSize  int64     `json:"true_size"` // bytes that only the snapshot references
	Size      int64     `json:"size"`      // bytes of all its files
	// Reason is manual, truncated or dropped.
	Reason string `json:"reason,omitempty"`
	// Expires is when the node removes the snapshot; nil means never.
	Expires *time.Time `json:"expires,omitempty"`
	// Problem says why the snapshot cannot be verified: its manifest is missing or damaged.
	Problem string `json:"problem,omitempty"`
	// Lacks names the data that the node had lost when it made the snapshot. Only the answer to the snapshot command
	// sets it.
	Lacks []string `json:"lacks,omitempty"`
}

// Snapshots are the snapshots of a node, ordered by name.
type Snapshots struct {
	Snapshots []Snapshot `json:"snapshots"`
}

// VerifyArgs name the snapshot whose files are compared with its manifest, or whose manifest is shown.
type VerifyArgs struct {
	Tag string `json:"tag"`
}

// ImportArgs name a snapshot, and the table that gets the rows that the snapshot has of the table with this name.
type ImportArgs struct {
	Tag      string `json:"tag"`
	Keyspace string `json:"keyspace"`
	Table    string `json:"table"`
}

// Verified is the result of the comparison of a snapshot with its manifest.
type Verified struct {
	Files     int      `json:"files"`
	Unchecked int      `json:"unchecked"` // of the files: only their sizes are known
	Problems  []string `json:"problems,omitempty"`
}

// ClearArgs name the snapshot to remove, or select all of them. Exactly one of the two is set.
type ClearArgs struct {
	Tag string `json:"tag,omitempty"`
	All bool   `json:"all,omitempty"`
}

// Switch is the state of a service that can be enabled and disabled.
type Switch struct {
	On bool `json:"on"`
	// Why is the reason that it is off, if an operator has not disabled it.
	Why string `json:"why,omitempty"`
}

// Timeouts are the timeouts of requests to replicas, by nodetool's names.
type Timeouts struct {
	Timeouts map[string]time.Duration `json:"timeouts_ns"`
}

// Seeds are the nodes that a new node contacts to join.
type Seeds struct {
	Seeds []string `json:"seeds"`
}

// Logging is the log level: debug, info, warn or error.
type Logging struct {
	Level string `json:"level"`
}

// Certificate describes the certificate files of one use.
type Certificate struct {
	Use     string `json:"use"`     // client or internode
	Expires string `json:"expires"` // in the format of RFC 3339
}

// Certificates are the certificates that a node has read again.
type Certificates struct {
	Certificates []Certificate `json:"certificates"`
}
