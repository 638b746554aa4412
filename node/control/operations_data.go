package control

import "time"

// What a node keeps, and what is done with it.
var (
	StatsOfTables   = Operation[TablesArgs, TableStats]{"tablestats"}
	HistogramsOf    = Operation[TableArgs, TableHistograms]{"tablehistograms"}
	TopPartitions   = Operation[TopArgs, Top]{"toppartitions"}
	StatsOfPools    = Operation[None, Pools]{"tpstats"}
	CompactionStats = Operation[None, Compactions]{"compactionstats"}
	NetStats        = Operation[None, Net]{"netstats"}
	ClientStats     = Operation[None, Clients]{"clientstats"}
	Flush           = Operation[TablesArgs, None]{"flush"}
	Compact         = Operation[TablesArgs, None]{"compact"}
	Cleanup         = Operation[TablesArgs, None]{"cleanup"}
	Drain           = Operation[None, None]{"drain"}
	TakeSnapshot    = Operation[SnapshotArgs, Snapshot]{"snapshot"}
	ListSnapshots   = Operation[None, Snapshots]{"listsnapshots"}
	ClearSnapshot   = Operation[ClearArgs, Snapshots]{"clearsnapshot"}
	BinaryOf        = Operation[None, Switch]{"statusbinary"}
	SetBinary       = Operation[Switch, Switch]{"setbinary"}
	HandoffOf       = Operation[None, Switch]{"statushandoff"}
	SetHandoff      = Operation[Switch, Switch]{"sethandoff"}
	PendingHintsOf  = Operation[None, PendingHints]{"listpendinghints"}
	TimeoutsOf      = Operation[None, Timeouts]{"gettimeout"}
	SeedsOf         = Operation[None, Seeds]{"getseeds"}
	LoggingLevelOf  = Operation[None, Logging]{"getlogginglevels"}
	SetLoggingLevel = Operation[Logging, Logging]{"setlogginglevel"}
)

// TablesArgs name tables: those named of a keyspace, all of one, or all.
type TablesArgs struct {
	Keyspace string   `json:"keyspace,omitempty"`
	Tables   []string `json:"tables,omitempty"`
}

// TableArgs name one table.
type TableArgs struct {
	Keyspace string `json:"keyspace"`
	Table    string `json:"table"`
}

// TableStats are the figures of tables on one node.
type TableStats struct {
	Tables       []TableStat `json:"tables"`
	MemTableSize int64       `json:"memtable_size"` // of all tables together
	Flushes      int64       `json:"flushes"`
}

// TableStat is one table's share of a node.
type TableStat struct {
	Keyspace string `json:"keyspace"`
	Table    string `json:"table"`
	Bytes    int64  `json:"space_used"`
	Files    int    `json:"sstable_count"`
	Levels   []int  `json:"sstables_in_each_level"`
	MaxBytes int64  `json:"max_sstable_size"`
	// Partitions and MeanPartition come from a sample; partitions of which only tombstones are left count.
	Partitions    int64 `json:"number_of_partitions_estimate"`
	MeanPartition int64 `json:"mean_partition_size"`

	Reads       int64         `json:"local_read_count"`
	Writes      int64         `json:"local_write_count"`
	ReadLatency time.Duration `json:"local_read_latency_mean_ns"` // zero: none was measured
}

// Percentiles of a duration; all zero when nothing was measured.
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

// TableHistograms is how long a table's requests took on this node.
type TableHistograms struct {
	TableArgs
	Read Percentiles `json:"read"` // one of eight is measured
}

// TopArgs say what toppartitions looks at.
type TopArgs struct {
	TableArgs
	Duration time.Duration `json:"duration_ns"`
	Count    int           `json:"count"` // of partitions; 10 when zero
}

// Top is the partitions that were read and written most.
type Top struct {
	TableArgs
	Reads  []TopPartition `json:"reads"`
	Writes []TopPartition `json:"writes"`
}

// TopPartition is one of them.
type TopPartition struct {
	Key   string `json:"key"`
	Count int64  `json:"count"`
	Error int64  `json:"error"` // Count may be too large by so much
}

// Pools is who works and waits in a node, and what it could not do in time.
type Pools struct {
	Pools   []Pool    `json:"pools"`
	Dropped []Dropped `json:"dropped"`
}

// Pool is a bounded number of things at work.
type Pool struct {
	Name      string `json:"name"`
	Active    int64  `json:"active"`
	ActiveMax int64  `json:"active_max"`
	Pending   int64  `json:"pending"`
	Completed int64  `json:"completed"`
	Refused   int64  `json:"refused"` // for the bound
}

// Dropped counts one kind of failure.
type Dropped struct {
	Kind  string `json:"kind"`
	Count int64  `json:"count"`
}

// Compactions is the state of the storage engine.
type Compactions struct {
	InProgress      int64   `json:"in_progress"`
	InProgressBytes int64   `json:"in_progress_bytes"`
	Debt            int64   `json:"debt"` // bytes that are to be compacted, about
	Completed       int64   `json:"completed"`
	Cancelled       int64   `json:"cancelled"`
	Failed          int64   `json:"failed"`
	BytesCompacted  int64   `json:"bytes_compacted"`
	Flushes         int64   `json:"flushes"`
	Stalls          int64   `json:"stalls"` // times writes had to wait
	MemTables       int64   `json:"memtables"`
	MemTableBytes   int64   `json:"memtable_bytes"`
	LogBytes        int64   `json:"log_bytes"`
	Swept           int64   `json:"swept"`
	Purged          int64   `json:"purged"`
	Levels          []Level `json:"levels"`
}

// Level is one level of the tree.
type Level struct {
	Level     int     `json:"level"`
	Files     int64   `json:"sstables"`
	Bytes     int64   `json:"bytes"`
	Score     float64 `json:"score"` // from 1 on it is compacted
	Sublevels int     `json:"sublevels"`
}

// Net is what goes between nodes.
type Net struct {
	Mode         string      `json:"mode"`
	Streams      []Stream    `json:"streams"`
	ReadRepair   ReadRepairs `json:"read_repair"`
	Hints        HintCounts  `json:"hints"`
	Peers        []PeerHints `json:"peers"`
	HintBytes    int64       `json:"hint_bytes"`
	HintBytesMax int64       `json:"hint_bytes_max"`
}

// Stream is data on its way to or from this node.
type Stream struct {
	Peer    string `json:"peer"`
	Sending bool   `json:"sending"`
	What    string `json:"what"`
	Done    int64  `json:"done_bytes"`
	Total   int64  `json:"total_bytes"`
}

// ReadRepairs are counts of this coordinator.
type ReadRepairs struct {
	Mismatches int64 `json:"mismatches"`
	Repairs    int64 `json:"repairs"`
}

// HintCounts are counts of this coordinator.
type HintCounts struct {
	Stored   int64 `json:"stored"`
	Replayed int64 `json:"replayed"`
	Expired  int64 `json:"expired"`
	Lost     int64 `json:"lost"`
}

// PeerHints is what waits for one node.
type PeerHints struct {
	Member
	Records int `json:"hint_records"`
}

// PendingHints is what waits for other nodes.
type PendingHints struct {
	Peers []PeerHints `json:"peers"`
}

// Clients are the CQL connections.
type Clients struct {
	Clients []Connection `json:"clients"`
}

// Connection is a CQL client's.
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

// SnapshotArgs say what a snapshot is made of.
type SnapshotArgs struct {
	Tag       string   `json:"tag,omitempty"`       // milliseconds since 1970 when empty
	Keyspaces []string `json:"keyspaces,omitempty"` // all when empty
}

// Snapshot is a copy of data as it was.
type Snapshot struct {
	Tag       string    `json:"tag"`
	Directory string    `json:"directory"`
	Keyspaces []string  `json:"keyspaces"`
	Created   time.Time `json:"created"`
	TrueSize  int64     `json:"true_size"` // bytes that only the snapshot needs
	Size      int64     `json:"size"`      // bytes of all its files
	// Lacks names what the node had lost when it made the snapshot; only the answer to the snapshot command has it.
	Lacks []string `json:"lacks,omitempty"`
}

// Snapshots are those of a node, by name.
type Snapshots struct {
	Snapshots []Snapshot `json:"snapshots"`
}

// ClearArgs name the snapshot to remove, or say that all are meant.
type ClearArgs struct {
	Tag string `json:"tag,omitempty"`
	All bool   `json:"all,omitempty"`
}

// Switch is something that is on or off.
type Switch struct {
	On bool `json:"on"`
	// Why says why it is off, when that is not an operator's choice.
	Why string `json:"why,omitempty"`
}

// Timeouts are how long requests wait for replicas, by nodetool's names.
type Timeouts struct {
	Timeouts map[string]time.Duration `json:"timeouts_ns"`
}

// Seeds are the nodes that are asked for admission.
type Seeds struct {
	Seeds []string `json:"seeds"`
}

// Logging is what is logged: debug, info, warn or error.
type Logging struct {
	Level string `json:"level"`
}
