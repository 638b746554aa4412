package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/audit"
	"cqld/azuretables"
	"cqld/internal/env"
	"cqld/internal/memory"
	"cqld/messaging"
	"cqld/query/definition"
	"cqld/query/guardrail"
	"cqld/ring"
	"cqld/udf/value"
)

// CommitLogSync determines when a write is acknowledged.
type CommitLogSync string

// Batch acknowledges a write when it is on disk; concurrent writes share one sync. Periodic acknowledges immediately
// and syncs every period; it is Cassandra's default.
const (
	SyncBatch    CommitLogSync = "batch"
	SyncPeriodic CommitLogSync = "periodic"
)

// Options configure a node. The zero values of the fields are not their defaults: begin with Default. In the file
// (config.go), the options have their names of cassandra.yaml.
type Options struct {
	ClusterName string
	Datacenter  string
	Rack        string
	NumTokens   int
	// InitialTokens are the tokens of this node when it joins: initial_token. If there are none, the cluster chooses
	// them.
	InitialTokens []ring.Token

	DataDir string
	FS      vfs.FS // nil: the file system of the machine
	// Clock replaces the machine's clock, and Network replaces TCP, for nodes inside a test process. nil means the
	// machine's. ClockOffset does not affect a Clock that is set.
	Clock   env.Clock
	Network messaging.Network

	ListenAddress       netip.Addr // for other nodes
	StoragePort         uint16
	RPCAddress          netip.Addr // for CQL clients
	NativeTransportPort uint16
	TablesPort          uint16 // for clients of Azure Tables, on RPCAddress; 0: closed
	// ClientEncryption is TLS of the ports for CQL and Azure Tables clients.
	ClientEncryption Encryption
	// InternodeEncryption is TLS of the port for other nodes.
	InternodeEncryption InternodeEncryption
	// BroadcastRPCAddress is the address that the node advertises to clients. If it is not valid, that is RPCAddress.
	BroadcastRPCAddress netip.Addr
	// DevelopmentMode serves clients of all addresses without logins and encryption: development.
	DevelopmentMode bool
	rpcSet          bool // rpc_address was set
	// AllowInsecureAddresses permits addresses that other machines can reach although nodes or clients are not
	// authenticated or not encrypted: allow_insecure_listen_addresses.
	AllowInsecureAddresses bool
	Seeds                  []netip.AddrPort
	// SeedNames replace Seeds if some are host names, NAME:PORT. They are looked up before each attempt to join.
	SeedNames []string
	// ListenName and RPCName are the host names from which ResolveNames determines ListenAddress and RPCAddress; empty:
	// none.
	ListenName, RPCName string
	LookupHost          LookupHost // nil: the resolver of the machine
	// Replace is the address or host id of the dead node that this node replaces at its first start. If it is empty,
	// the node joins as an additional one.
	Replace        string
	ControlAddress netip.AddrPort // of the control port, in addition to its socket; closed if not valid
	// HealthAddress is the address of the probes of a supervisor; closed if not valid.
	HealthAddress netip.AddrPort
	// ControlEncryption is TLS of ControlAddress, which serves only clients with certificates.
	ControlEncryption Encryption
	ControlSocket     bool // the control port has a socket in DataDir, which then must be a directory of the machine

	CommitLogSync       CommitLogSync
	CommitLogSyncPeriod time.Duration
	// MemoryLimit bounds the memory of the node: memory_limit. Zero means the limit of the cgroup, or the machine's
	// memory.
	MemoryLimit int64
	// Memory divides the memory of the node. DivideMemory sets it, and the following fields that are zero.
	Memory           memory.Division
	CacheBytes       int64
	MemTableBytes    int64
	VectorGraphBytes int64 // of the graph of one index of vectors; zero: no graphs, negative: a share of Memory

	ReadTimeout     time.Duration
	RangeTimeout    time.Duration
	WriteTimeout    time.Duration
	CASTimeout      time.Duration // of conditional updates under contention: cas_contention_timeout
	CounterTimeout  time.Duration
	TruncateTimeout time.Duration
	HintWindow      time.Duration

	IndexBuildThroughput int64         // bytes of rows per second that builds of indexes read: index_build_throughput
	StreamThroughput     int64         // bytes per second sent for range movements: stream_throughput_outbound
	AutoRepair           bool          // repair in the background: auto_repair_enabled
	AutoRepairInterval   time.Duration // for each table: auto_repair_min_repair_interval
	// bytes per second that replicas scan for this node's repairs: auto_repair_throughput
	RepairThroughput int64

	TraceBytesMax int64 // disk space of traces on a node: trace_storage_limit

	DynamicDataMasking bool // columns may be masked: dynamic_data_masking_enabled
	ViewsDisabled      bool // CREATE MATERIALIZED VIEW is refused: materialized_views_enabled
	DropCompactStorage bool // ALTER TABLE … DROP COMPACT STORAGE is possible: drop_compact_storage_enabled
	Guardrails         guardrail.Guardrails
	Indexes            definition.Indexes

	UserFunctions  bool         // users may define and call functions: user_defined_functions_enabled
	FunctionLimits value.Limits // of one call: user_defined_functions_…

	MaxFrameBytes       int
	BatchWarnBytes      int
	BatchFailBytes      int
	MaxTimestampAhead   time.Duration // maximum_timestamp_fail_threshold
	WarnTimestampAhead  time.Duration // maximum_timestamp_warn_threshold
	MaxClients          int           // connections; 0: the server's default
	MaxRequestsInFlight int           // 0: the server's default

	Access Access // authentication and authorization

	// PagingSecret authenticates paging states for several clusters: paging_state_secret. Empty means that states are
	// valid in this cluster only.
	PagingSecret string

	// TablesAccounts are the accounts of the Tables server. Those of the cluster's
	// metadata are served as well. If there are none, the development account is, on a loopback address.
	TablesAccounts []azuretables.Account
	// TablesConsistency is the consistency of requests of accounts without their own: QUORUM or LOCAL_QUORUM.
	TablesConsistency string
	// TablesHosts are the host names, in addition to localhost, under which the development account is served. Clients
	// may always use IP addresses.
	TablesHosts []string
	// Warnings are problems of the configuration that do not prevent the node from starting. Open logs them.
	Warnings []string
	// TablesPartitionTarget and TablesAccountTarget are the rates, in entities per second, above which the server
	// throttles a partition or an account. 0 means no limit.
	TablesPartitionTarget, TablesAccountTarget int
	// Limits of requests and of all connections. 0 means the limits of the Azure service.
	TablesMaxConnections, TablesMaxProperties, TablesMaxEntityBytes, TablesMaxBatchOperations int

	// ClockOffset makes this node's clock wrong, to test how a ring behaves with such a node. It requires Unsafe.
	ClockOffset time.Duration
	Unsafe      bool

	ClientLimits ClientLimits

	Audit audit.Settings // audit_logging_options; an empty Dir means audit in DataDir

	Logger   *slog.Logger
	LogLevel *slog.LevelVar // level of Logger, if it can be changed
}

// pagingSecretMin is the least length of paging_state_secret.
const pagingSecretMin = 32

// Default returns the options of `cqld start` without flags: one node on 127.0.0.1.
func Default() Options {
	return Options{
		ClusterName: "cqld",
		Datacenter:  "datacenter1",
		Rack:        "rack1",
		NumTokens:   16,
		DataDir:     "cqld-data",

		ControlSocket: true,

		ListenAddress:       netip.AddrFrom4([4]byte{127, 0, 0, 1}),
		StoragePort:         7000,
		RPCAddress:          netip.AddrFrom4([4]byte{127, 0, 0, 1}),
		NativeTransportPort: 9042,
		TablesPort:          10002,
		TablesConsistency:   azuretables.Quorum,

		Access: Access{Authenticator: AllowAllAuthenticator, Authorizer: AllowAllAuthorizer,
			NetworkAuthorizer: AllowAllNetworkAuthorizer, CIDRAuthorizer: AllowAllCIDRAuthorizer},

		CommitLogSync:       SyncBatch,
		CommitLogSyncPeriod: 10 * time.Second,

		VectorGraphBytes: -1,

		ReadTimeout:     5 * time.Second,
		RangeTimeout:    10 * time.Second,
		WriteTimeout:    2 * time.Second,
		CASTimeout:      time.Second,
		CounterTimeout:  5 * time.Second,
		TruncateTimeout: 60 * time.Second,
		HintWindow:      3 * time.Hour,

		StreamThroughput:     24 << 20,
		TraceBytesMax:        256 << 20,
		IndexBuildThroughput: 64 << 20,
		AutoRepair:           true,
		Guardrails:           guardrail.Defaults(),
		Indexes: definition.Indexes{Default: definition.LegacyIndexName, PerTableWarn: -1,
			PerTableFail: -1},
		AutoRepairInterval: 24 * time.Hour,
		RepairThroughput:   16 << 20,

		UserFunctions: true, FunctionLimits: defaultFunctionLimits(),

		BatchWarnBytes:     5 << 10,
		BatchFailBytes:     50 << 10,
		WarnTimestampAhead: time.Minute,

		Audit: audit.DefaultSettings(), ClientLimits: defaultClientLimits(),
	}
}

// Validate returns an error that describes all invalid options.
func (o *Options) Validate() error {
	var errs []error
	if err := o.validateFunctions(); err != nil {
		errs = append(errs, err)
	}
	bad := func(name, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", name, fmt.Sprintf(format, args...)))
	}
	if o.ClusterName == "" {
		bad("cluster_name", "must not be empty")
	}
	if o.Datacenter == "" || o.Rack == "" {
		bad("datacenter, rack", "must not be empty")
	}
	if o.ClockOffset != 0 && !o.Unsafe {
		bad("clock-offset", "makes the clock wrong on purpose: it is for tests, and needs --unsafe")
	}
	if o.NumTokens < 1 || o.NumTokens > 1024 {
		bad("num_tokens", "%d is not between 1 and 1024", o.NumTokens)
	}
	if o.DataDir == "" {
		bad("data_file_directories", "must not be empty")
	}
	if o.CommitLogSync != SyncBatch && o.CommitLogSync != SyncPeriodic {
		bad("commitlog_sync", "%q is neither batch nor periodic", o.CommitLogSync)
	}
	if o.CommitLogSyncPeriod <= 0 {
		bad("commitlog_sync_period", "must be positive")
	}
	if n := len(o.PagingSecret); n > 0 && n < pagingSecretMin {
		bad("paging_state_secret", "has %d characters; use at least %d, for example of `openssl rand -base64 33`", n,
			pagingSecretMin)
	}
	o.validateClientLimits(bad)
	if s := o.AuditSettings(); s.Validate() != nil {
		bad("audit_logging_options", "%v", s.Validate())
	}
	o.validateAddresses(bad)
	o.validateAccess(bad)
	for name, d := range map[string]time.Duration{"read_request_timeout": o.ReadTimeout,
		"range_request_timeout": o.RangeTimeout,
		"write_request_timeout": o.WriteTimeout, "cas_contention_timeout": o.CASTimeout,
		"counter_write_request_timeout": o.CounterTimeout, "truncate_request_timeout": o.TruncateTimeout} {
		if d <= 0 {
			bad(name, "must be positive")
		}
	}
	for name, n := range map[string]int64{"stream_throughput_outbound": o.StreamThroughput,
		"index_build_throughput": o.IndexBuildThroughput, "auto_repair_throughput": o.RepairThroughput} {
		if n < 64<<10 {
			bad(name, "must be at least 64KiB/s")
		}
	}
	if o.AutoRepairInterval < time.Minute {
		bad("auto_repair_min_repair_interval", "must be at least 1m")
	}
	if o.MaxFrameBytes != 0 && (o.MaxFrameBytes < 64<<10 || o.MaxFrameBytes > 256<<20) {
		bad("native_transport_max_frame_size", "must lie between 64KiB and 256MiB")
	}
	return errors.Join(errs...)
}

// validateAddresses requires encryption and authentication if other machines can connect.
func (o *Options) validateAddresses(bad func(name, format string, args ...any)) {
	check := func(name string, a netip.Addr, port uint16, portName string) {
		switch {
		case !a.IsValid() || a.IsUnspecified() && name != "rpc_address":
			bad(name, "%s is not an address that other machines can connect to; set one", a)
		}
		if port == 0 {
			bad(portName, "must not be 0")
		}
	}
	if c := o.ControlAddress; c.IsValid() && (c.Port() == 0 || !c.Addr().IsLoopback() && !o.ControlEncryption.Enabled) {
		bad("control_address", "%s is not a loopback address with a port: its token would travel in the clear. "+
			"Set control_encryption_options, or from another machine use ssh -L, or run cqld ctl there", c)
	}
	o.validateControl(bad)
	check("listen_address", o.ListenAddress, o.StoragePort, "storage_port")
	check("rpc_address", o.RPCAddress, o.NativeTransportPort, "native_transport_port")
	o.validateAllAddresses(bad)
	o.validateTables(bad)
	o.ClientEncryption.validate("client_encryption_options", bad)
	o.InternodeEncryption.validate(bad)
	o.validateInsecure(bad)
	o.validateHealth(bad)
}

// Internode returns the address for other nodes.
func (o *Options) Internode() netip.AddrPort {
	return netip.AddrPortFrom(o.ListenAddress, o.StoragePort)
}

// Native returns the address that CQL clients connect to.
func (o *Options) Native() netip.AddrPort {
	if o.BroadcastRPCAddress.IsValid() {
		return netip.AddrPortFrom(o.BroadcastRPCAddress, o.NativeTransportPort)
	}
	return o.NativeListener()
}

// NativeListener returns the address at which the node listens for CQL clients.
func (o *Options) NativeListener() netip.AddrPort {
	return netip.AddrPortFrom(o.RPCAddress, o.NativeTransportPort)
}

// validateHealth checks health_address. It may be any address, because the probes reveal nothing.
func (o *Options) validateHealth(bad func(name, format string, args ...any)) {
	if a := o.HealthAddress; a != (netip.AddrPort{}) && (!a.IsValid() || a.Port() == 0) {
		bad("health_address", "%s has no port", a)
	}
}
