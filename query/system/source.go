package system

import (
	"net/netip"
	"time"

	"cqld/auth"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// The versions that this server reports. Drivers choose the tables and the syntax by the release: it must be at least
// 4.0 for peers_v2, virtual tables and server-side DESCRIBE. cqlsh warns if the release differs from the one for which
// it was built (6.2.2: 5.0.0). They are not the version of cqld.
const (
	ReleaseVersion  = "5.0.0"
	CQLVersion      = "3.4.7"
	ProtocolVersion = "5"
	Partitioner     = "org.apache.cassandra.dht.Murmur3Partitioner"
)

// View provides the snapshots from which rows are generated. Each snapshot is immutable. Two of them may be of
// different times. Its methods must be cheap and safe for concurrent use, because each page calls them.
type View interface {
	Self() ring.NodeID
	Schema() *schema.Schema
	Topology() *ring.Topology
	// SchemaVersion returns the schema version of another node, as far as this node knows.
	SchemaVersion(ring.NodeID) schema.UUID
}

// Client is a connection in system_views.clients. Stage and Options are as the protocol defines them; DRIVER_NAME and
// DRIVER_VERSION are shown in columns.
type Client struct {
	Address         netip.AddrPort
	Hostname        string // empty means the address
	User            string // empty means anonymous
	Stage           string // empty means ready
	ProtocolVersion int
	Options         map[string]string // of STARTUP
	Keyspace        string            // empty means none in use
	Requests        int64
	TLS             bool
	TLSProtocol     string
	TLSCipher       string
}

// Job describes long-running work, for system_views.jobs. The state and the kind have the words of the commands for
// jobs.
type Job struct {
	ID, Kind, Target, State string
	Phase, Error            string // empty means none
	Done, Total             int64  // in Unit; Total 0 means unknown
	Unit                    string
	Left                    time.Duration // 0 means unknown
	Attempt                 int
	Resumable               bool
	Created, Began, Ended   time.Time // zero means not yet
}

// Options are the dependencies of a Source. View must be set. Functions are called for each read of their tables and
// must be safe for concurrent use.
type Options struct {
	View        View
	ClusterName string
	Generation  int32 // seconds since 1970 at which this node started
	// Clients returns the connections of this node; nil means none.
	Clients func() []Client
	// Estimate measures a table of this node; nil means that the tables of estimates are empty.
	Estimate func(*schema.Table) Estimate
	// Jobs returns the jobs of this node; nil means none.
	Jobs func() []Job
	// Roles returns the roles of the cluster; nil means none.
	Roles   func() *auth.Directory
	Figures Figures
	Builds  Builds
	// Ranges returns the loads of the physical partitions, as this node knows them; nil means none.
	Ranges func() []RangeLoad
	// Settings returns this node's configuration, by name; nil means none.
	Settings func() map[string]string
}

// Source generates rows. It is safe for concurrent use. It keeps no rows: each command generates them from the current
// state, so that two pages may show different states.
type Source struct {
	o             Options
	keyspaceOrder keyOrder[*schema.Schema]
	roleOrder     keyOrder[*auth.Directory]
}

// New returns a Source.
func New(o Options) *Source { return &Source{o: o} }

// Serves reports whether this package generates the rows of t. It does not generate other tables of system_distributed:
// they are stored.
func (s *Source) Serves(t *schema.Table) bool {
	return t.Virtual || t.Keyspace == "system_auth" || t.Keyspace == "system_distributed" &&
		t.Name == "view_build_status"
}

// Partitions yields the partitions of t until yield returns false. It includes all rows that cmd reads, and omits the
// rows of other tables from the estimates, because each estimate reads samples of the table's data. more means that it
// omits rows of system_schema after those that it yields. The rows of a partition are sorted. The caller applies
// slices, limits and filters. A Partition belongs to yield's caller after the call. An error is a bug of this package,
// such as a column that the table does not have.
func (s *Source) Partitions(t *schema.Table, cmd *row.ReadCommand, yield func(*row.Partition) bool) (more bool,
	err error) {
	b := newBuilder(t, cmd)
	switch t.Keyspace {
	case "system":
		s.systemRows(b)
	case "system_schema":
		s.schemaRows(b)
	case "system_virtual_schema":
		s.virtualSchemaRows(b)
	case "system_views":
		s.viewRows(b)
	case "system_distributed":
		s.buildStatusRows(b)
	case "system_auth":
		s.authRows(b)
	}
	return b.yield(yield)
}

// systemRows adds the rows of a table of the keyspace system. Its other tables are empty.
func (s *Source) systemRows(b *builder) {
	switch b.table.Name {
	case "IndexInfo":
		s.indexInfoRows(b)
	case "built_views":
		s.builtRows(b)
	case "view_builds_in_progress":
		s.buildingRows(b)
	case "local":
		s.localRow(b)
	case "prepared_statements":
		s.preparedRows(b)
	case "peers":
		s.peerRows(b, false)
	case "peers_v2":
		s.peerRows(b, true)
	case "size_estimates":
		s.estimateRows(b, false)
	case "table_estimates":
		s.estimateRows(b, true)
	}
}
