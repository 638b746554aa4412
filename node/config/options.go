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
	"cqld/backup"
	"cqld/internal/env"
	"cqld/messaging"
	"cqld/query/definition"
	"cqld/query/guardrail"
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
// (file.go), the options have their names of cassandra.yaml. node.Open takes a copy; Logger, LogLevel, Clock, Network
// and FS are shared with the caller.
//
// A bound of 0 means no bound, the default of the part, or a value that DivideMemory computes; each field says which.
// Durations and sizes are Go's: nanoseconds and bytes.
type Options struct {
	// ClusterName must be the same on all nodes: they refuse connections of nodes with another one. It is compared
	// once, at the first start: datadir.Identity keeps it.
	ClusterName string
	Datacenter  string // data center of this node, as in the topology
	Rack        string
	Join        Join // how this node becomes a member

	// DataDir contains everything that the node stores: rows, metadata, snapshots, the audit log unless it has a
	// directory of its own, and the control socket with its token.
	DataDir string
	FS      vfs.FS // nil: the file system of the machine
	// BackupFS contains the locations of backups; nil: the file system of the machine.
	BackupFS vfs.FS
	// Clock replaces the machine's clock, and Network replaces TCP, for nodes inside a test process. nil means the
	// machine's. ClockOffset does not affect a Clock that is set.
	Clock   env.Clock
	Network messaging.Network

	// Listen and Encryption are validated together: which addresses are allowed depends on the encryption.
	Listen     Listen
	Encryption Ports
	AtRest     AtRest    // encryption of what the node stores
	BackupKeys KeySource // encryption of backups
	// DevelopmentMode serves clients of all addresses without logins and encryption: development.
	DevelopmentMode bool

	CommitLog  CommitLog // when a write is acknowledged
	Memory     Memory
	Timeouts   Timeouts
	Background Background
	Snapshots  Snapshots
	DropGrace  time.Duration // how long dropped tables can be restored; 0 means not at all: drop_grace

	TraceBytesMax int64 // disk space of traces on a node: trace_storage_limit

	DynamicDataMasking bool // columns may be masked: dynamic_data_masking_enabled
	ViewsDisabled      bool // CREATE MATERIALIZED VIEW is refused: materialized_views_enabled
	DropCompactStorage bool // ALTER TABLE … DROP COMPACT STORAGE is possible: drop_compact_storage_enabled
	// Guardrails, Indexes and Functions restrict what statements may do, and do not change stored data.
	Guardrails guardrail.Guardrails
	Indexes    definition.Indexes
	Functions  Functions

	Access       Access // authentication and authorization
	Requests     Requests
	ClientLimits ClientLimits
	Tables       Tables
	// PagingSecret authenticates paging states for several clusters: paging_state_secret. Empty means that states are
	// valid in this cluster only.
	PagingSecret string

	// ClockOffset makes this node's clock wrong, to test how a ring behaves with such a node. It requires Unsafe.
	ClockOffset time.Duration
	// Unsafe allows options that are for tests only.
	Unsafe bool

	Audit audit.Settings // audit_logging_options; an empty Dir means audit in DataDir
	// Logger may be nil; the node then logs to slog.Default.
	Logger   *slog.Logger
	LogLevel *slog.LevelVar // level of Logger, if it can be changed
	// Warnings are problems of the configuration that do not prevent the node from starting. Open logs them.
	Warnings []string
}

// pagingSecretMin is the least length of paging_state_secret. 32 characters of base64 have 192 random bits, more than
// the 128 that the authentication code needs.
const pagingSecretMin = 32

// Default returns the options of `cqld start` without flags: one node on 127.0.0.1. Sizes that are 0 in the result are
// set by DivideMemory. Ports and timeouts are the defaults of Cassandra's file, except for tables_port (the port of
// Azurite's table service) and commitlog_sync, which is batch here: an acknowledged write survives a power failure of
// all replicas.
func Default() Options {
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	return Options{
		ClusterName: "cqld",
		Datacenter:  "datacenter1",
		Rack:        "rack1",
		// 16 tokens, as in Cassandra since 4.0.
		Join:    Join{NumTokens: 16},
		DataDir: "cqld-data",
		// The options of the source have this prefix.
		BackupKeys: KeySource{Prefix: backupPrefix},
		Listen: Listen{
			Address:       loopback,
			StoragePort:   7000,
			RPCAddress:    loopback,
			NativePort:    9042,
			ControlSocket: true,
		},
		Tables: Tables{Port: 10002, Consistency: azuretables.Quorum},
		Access: Access{Authenticator: AllowAllAuthenticator, Authorizer: AllowAllAuthorizer,
			NetworkAuthorizer: AllowAllNetworkAuthorizer, CIDRAuthorizer: AllowAllCIDRAuthorizer},
		CommitLog: CommitLog{Sync: SyncBatch, SyncPeriod: 10 * time.Second, ArchiveSpace: 8 << 30},
		// Zero would mean no graphs, so a negative value stands for not set.
		Memory: Memory{VectorGraphBytes: -1, RowCacheBytes: -1},
		Timeouts: Timeouts{
			Read:     5 * time.Second,
			Range:    10 * time.Second,
			Write:    2 * time.Second,
			CAS:      time.Second,
			Counter:  5 * time.Second,
			Truncate: 60 * time.Second,
		},
		Background: Background{
			// Throughputs are in bytes per second.
			HintWindow:           3 * time.Hour,
			StreamThroughput:     24 << 20,
			IndexBuildThroughput: 64 << 20,
			AutoRepair:           true,
			AutoRepairInterval:   24 * time.Hour,
			RepairThroughput:     16 << 20,
		},
		Snapshots:     Snapshots{Auto: true, TTL: 24 * time.Hour},
		DropGrace:     24 * time.Hour,
		TraceBytesMax: 256 << 20,
		Guardrails:    guardrail.Defaults(),
		Indexes: definition.Indexes{Default: definition.LegacyIndexName, PerTableWarn: -1,
			PerTableFail: -1},
		Functions: Functions{Enabled: true, Limits: defaultFunctionLimits()},
		Requests: Requests{BatchWarnBytes: 5 << 10, BatchFailBytes: 50 << 10,
			WarnTimestampAhead: time.Minute},
		Audit:        audit.DefaultSettings(),
		ClientLimits: defaultClientLimits(),
	}
}

// Validate returns an error that describes all invalid options. The options need not be complete: names are resolved
// and memory is divided later. It changes nothing and opens nothing. Each line of the message begins with the name of
// the option, as errors of the file do.
func (o *Options) Validate() error {
	var errs []error
	if err := o.validateFunctions(); err != nil {
		errs = append(errs, err)
	}
	// Errors are collected, so that one run of the node reports all of them.
	bad := func(name, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", name, fmt.Sprintf(format, args...)))
	}
	if o.ClusterName == "" {
		bad("cluster_name", "must not be empty")
	}
	if o.Datacenter == "" || o.Rack == "" {
		bad("datacenter, rack", "must not be empty")
	}
	// Timestamps decide which write wins, so a wrong clock loses writes of other nodes.
	if o.ClockOffset != 0 && !o.Unsafe {
		bad("clock-offset", "makes the clock wrong on purpose: it is for tests, and needs --unsafe")
	}
	// The cluster refuses a node with more tokens, but only when it joins.
	if o.Join.NumTokens < 1 || o.Join.NumTokens > 1024 {
		bad("num_tokens", "%d is not between 1 and 1024", o.Join.NumTokens)
	}
	if o.DataDir == "" {
		bad("data_file_directories", "must not be empty")
	}
	if o.CommitLog.Sync != SyncBatch && o.CommitLog.Sync != SyncPeriodic {
		bad("commitlog_sync", "%q is neither batch nor periodic", o.CommitLog.Sync)
	}
	// Checked in every mode, so that a change of commitlog_sync alone cannot make the file invalid.
	if o.CommitLog.SyncPeriod <= 0 {
		bad("commitlog_sync_period", "must be positive")
	}
	o.validateArchive(bad)
	// Clients see states that the secret authenticates, and could try short secrets.
	if n := len(o.PagingSecret); n > 0 && n < pagingSecretMin {
		bad("paging_state_secret", "has %d characters; use at least %d, for example of `openssl rand -base64 33`", n,
			pagingSecretMin)
	}
	o.validateClientLimits(bad)
	o.AtRest.validate(bad)
	o.BackupKeys.validate(bad)
	// A disabled audit log is validated as well, because an operator may enable it.
	if s := o.AuditSettings(); s.Validate() != nil {
		bad("audit_logging_options", "%v", s.Validate())
	}
	o.validateAddresses(bad)
	o.validateAccess(bad)
	// A timeout of zero would fail every request, so none of them can be disabled.
	for name, d := range map[string]time.Duration{"read_request_timeout": o.Timeouts.Read,
		"range_request_timeout": o.Timeouts.Range,
		"write_request_timeout": o.Timeouts.Write, "cas_contention_timeout": o.Timeouts.CAS,
		"counter_write_request_timeout": o.Timeouts.Counter, "truncate_request_timeout": o.Timeouts.Truncate} {
		if d <= 0 {
			bad(name, "must be positive")
		}
	}
	// A lower rate is more likely a wrong unit than an intention.
	for name, n := range map[string]int64{"stream_throughput_outbound": o.Background.StreamThroughput,
		"index_build_throughput": o.Background.IndexBuildThroughput,
		"auto_repair_throughput": o.Background.RepairThroughput} {
		if n < 64<<10 {
			bad(name, "must be at least 64KiB/s")
		}
	}
	// Each run compares all ranges, so a shorter interval would repair without a pause.
	if o.Background.AutoRepairInterval < time.Minute {
		bad("auto_repair_min_repair_interval", "must be at least 1m")
	}
	o.validateRemovals(bad)
	// Zero is not set yet; DivideMemory chooses a size within the bounds.
	if o.Requests.MaxFrameBytes != 0 && (o.Requests.MaxFrameBytes < 64<<10 || o.Requests.MaxFrameBytes > 256<<20) {
		bad("native_transport_max_frame_size", "must lie between 64KiB and 256MiB")
	}
	return errors.Join(errs...)
}

// validateArchive checks the location of the archived log. Its error contains no credentials. Whether the location can
// be used is not checked: a node must start while the store does not answer.
func (o *Options) validateArchive(bad func(name, format string, args ...any)) {
	if o.CommitLog.Archive == "" {
		return
	}
	if err := backup.CheckLocation(o.CommitLog.Archive); err != nil {
		bad("backup_log", "%v", err)
	}
	// Less than a few files of the log would be lost whenever the store is slow.
	if o.CommitLog.ArchiveSpace < 256<<20 {
		bad("backup_log_space", "must be at least 256MiB")
	}
}

// validateRemovals checks how long removed data are kept.
func (o *Options) validateRemovals(bad func(name, format string, args ...any)) {
	// Cassandra has the same least value.
	if ttl := o.Snapshots.TTL; ttl != 0 && ttl < time.Minute {
		bad("auto_snapshot_ttl", "must be at least 1m, or 0s to keep the snapshots until they are cleared")
	}
	// The grace is counted in seconds.
	if g := o.DropGrace; g != 0 && (g < time.Second || g > 30*24*time.Hour) {
		bad("drop_grace", "must lie between 1s and 30d, or be 0s to remove dropped tables at once")
	}
}

// validateAddresses requires encryption and authentication if other machines can connect. Addresses that only this
// machine can reach need neither. A node with the default addresses needs no certificates.
func (o *Options) validateAddresses(bad func(name, format string, args ...any)) {
	// A node that listens on all addresses has no address that others could use.
	check := func(name string, a netip.Addr, port uint16, portName string) {
		switch {
		case !a.IsValid() || a.IsUnspecified() && name != "rpc_address":
			bad(name, "%s is not an address that other machines can connect to; set one", a)
		}
		// The port is part of the address by which others know the node.
		if port == 0 {
			bad(portName, "must not be 0")
		}
	}
	// The token is sent with every request, and gives every right of an operator.
	if c := o.Listen.ControlAddress; c.IsValid() && (c.Port() == 0 || !c.Addr().IsLoopback() &&
		!o.Encryption.Control.Enabled) {
		bad("control_address", "%s is not a loopback address with a port: its token would travel in the clear. "+
			"Set control_encryption_options, or from another machine use ssh -L, or run cqld ctl there", c)
	}
	o.validateControl(bad)
	check("listen_address", o.Listen.Address, o.Listen.StoragePort, "storage_port")
	check("rpc_address", o.Listen.RPCAddress, o.Listen.NativePort, "native_transport_port")
	o.validateAllAddresses(bad)
	o.validateTables(bad)
	o.Encryption.Clients.validate("client_encryption_options", bad)
	o.Encryption.Internode.validate(bad)
	o.validateInsecure(bad)
	o.validateHealth(bad)
}

// Internode returns the address for other nodes. Other nodes know this address, and use it to identify the node in the
// topology.
func (o *Options) Internode() netip.AddrPort {
	return netip.AddrPortFrom(o.Listen.Address, o.Listen.StoragePort)
}

// Native returns the address that CQL clients connect to. With a proxy, or in a container, it is not the address at
// which the node listens.
func (o *Options) Native() netip.AddrPort {
	if o.Listen.BroadcastRPCAddress.IsValid() {
		return netip.AddrPortFrom(o.Listen.BroadcastRPCAddress, o.Listen.NativePort)
	}
	return o.NativeListener()
}

// NativeListener returns the address at which the node listens for CQL clients.
func (o *Options) NativeListener() netip.AddrPort {
	return netip.AddrPortFrom(o.Listen.RPCAddress, o.Listen.NativePort)
}

// validateHealth checks health_address. It may be any address, because the probes reveal nothing. The probes report
// only whether the node serves.
func (o *Options) validateHealth(bad func(name, format string, args ...any)) {
	if a := o.Listen.HealthAddress; a != (netip.AddrPort{}) && (!a.IsValid() || a.Port() == 0) {
		bad("health_address", "%s has no port", a)
	}
}
