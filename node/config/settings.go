package config

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// controlAddress returns the option as text; empty means that the port is closed.
func (o *Options) controlAddress() string {
	// The zero AddrPort has a text of its own, which is no address.
	if !o.Listen.ControlAddress.IsValid() {
		return ""
	}
	return o.Listen.ControlAddress.String()
}

// Settings returns the options in the form of system_views.settings, under their names in the file. Options that are
// not set show their default. Values that are secrets are not in the map. It is called after DivideMemory, so it shows
// the sizes in use. The map is new at each call.
func (o *Options) Settings() map[string]string {
	// Sizes are shown in bytes, which the file reads as well.
	size := func(n int64) string { return fmt.Sprintf("%dB", n) }
	// The names are listed and not derived from the settings of the file, because secrets must be left out.
	all := map[string]string{
		"cluster_name":                     o.ClusterName,
		"num_tokens":                       strconv.Itoa(o.Join.NumTokens),
		"data_file_directories":            "[" + o.DataDir + "]",
		"listen_address":                   o.Listen.Address.String(),
		"storage_port":                     strconv.Itoa(int(o.Listen.StoragePort)),
		"rpc_address":                      o.Listen.RPCAddress.String(),
		"native_transport_port":            strconv.Itoa(int(o.Listen.NativePort)),
		"seeds":                            strings.Join(o.SeedTexts(), ","),
		"control_address":                  o.controlAddress(),
		"partitioner":                      "org.apache.cassandra.dht.Murmur3Partitioner",
		"authenticator":                    o.Access.Authenticator,
		"authorizer":                       o.Access.Authorizer,
		"role_manager":                     "CassandraRoleManager",
		"network_authorizer":               o.Access.NetworkAuthorizer,
		"cidr_authorizer":                  o.Access.CIDRAuthorizer,
		"commitlog_sync":                   string(o.CommitLog.Sync),
		"commitlog_sync_period":            o.CommitLog.SyncPeriod.String(),
		"backup_log":                       o.CommitLog.Archive,
		"backup_log_space":                 size(o.CommitLog.ArchiveSpace),
		"memory_limit":                     size(o.Memory.Division.Figure),
		"block_cache_size":                 size(o.Memory.CacheBytes),
		"point_read_cache_size":            size(o.Memory.RowCacheBytes),
		"memtable_heap_space":              size(o.Memory.MemTableBytes),
		"vector_index_graph_size":          size(o.Memory.VectorGraphBytes),
		"read_request_timeout":             o.Timeouts.Read.String(),
		"range_request_timeout":            o.Timeouts.Range.String(),
		"write_request_timeout":            o.Timeouts.Write.String(),
		"cas_contention_timeout":           o.Timeouts.CAS.String(),
		"counter_write_request_timeout":    o.Timeouts.Counter.String(),
		"truncate_request_timeout":         o.Timeouts.Truncate.String(),
		"max_hint_window":                  o.Background.HintWindow.String(),
		"trace_storage_limit":              size(o.TraceBytesMax),
		"index_build_throughput":           size(o.Background.IndexBuildThroughput) + "/s",
		"stream_throughput_outbound":       size(o.Background.StreamThroughput) + "/s",
		"auto_repair_enabled":              strconv.FormatBool(o.Background.AutoRepair),
		"auto_repair_min_repair_interval":  o.Background.AutoRepairInterval.String(),
		"auto_repair_throughput":           size(o.Background.RepairThroughput) + "/s",
		"auto_snapshot":                    strconv.FormatBool(o.Snapshots.Auto),
		"auto_snapshot_ttl":                o.Snapshots.TTL.String(),
		"drop_grace":                       o.DropGrace.String(),
		"dynamic_data_masking_enabled":     strconv.FormatBool(o.DynamicDataMasking),
		"allow_nodelocal_consistency":      strconv.FormatBool(o.Requests.NodeLocal),
		"maximum_timestamp_fail_threshold": o.Requests.MaxTimestampAhead.String(),
		"maximum_timestamp_warn_threshold": o.Requests.WarnTimestampAhead.String(),
		"native_transport_max_frame_size":  size(int64(o.Requests.MaxFrameBytes)),
		"batch_size_warn_threshold":        size(int64(o.Requests.BatchWarnBytes)),
		"batch_size_fail_threshold":        size(int64(o.Requests.BatchFailBytes)),
	}
	// An address that is not set has no row.
	if o.Listen.BroadcastRPCAddress.IsValid() {
		all["broadcast_rpc_address"] = o.Listen.BroadcastRPCAddress.String()
	}
	all["development"] = strconv.FormatBool(o.DevelopmentMode)
	all["materialized_views_enabled"] = strconv.FormatBool(!o.ViewsDisabled)
	all["allow_insecure_listen_addresses"] = strconv.FormatBool(o.Listen.AllowInsecure)
	// Each group shows its own options, beside the code that reads them.
	maps.Copy(all, o.Encryption.Internode.settings())
	maps.Copy(all, guardrailTexts(o))
	maps.Copy(all, o.indexValues())
	maps.Copy(all, o.functionValues())
	return all
}
