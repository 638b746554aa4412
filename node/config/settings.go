package config

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
)

func (o *Options) controlAddress() string {
	if !o.ControlAddress.IsValid() {
		return ""
	}
	return o.ControlAddress.String()
}

// Settings returns the options in the form of system_views.settings, under their names in the file.
func (o *Options) Settings() map[string]string {
	size := func(n int64) string { return fmt.Sprintf("%dB", n) }
	all := map[string]string{
		"cluster_name":                     o.ClusterName,
		"num_tokens":                       strconv.Itoa(o.NumTokens),
		"data_file_directories":            "[" + o.DataDir + "]",
		"listen_address":                   o.ListenAddress.String(),
		"storage_port":                     strconv.Itoa(int(o.StoragePort)),
		"rpc_address":                      o.RPCAddress.String(),
		"native_transport_port":            strconv.Itoa(int(o.NativeTransportPort)),
		"seeds":                            strings.Join(o.SeedTexts(), ","),
		"control_address":                  o.controlAddress(),
		"partitioner":                      "org.apache.cassandra.dht.Murmur3Partitioner",
		"authenticator":                    o.Access.Authenticator,
		"authorizer":                       o.Access.Authorizer,
		"role_manager":                     "CassandraRoleManager",
		"network_authorizer":               o.Access.NetworkAuthorizer,
		"cidr_authorizer":                  o.Access.CIDRAuthorizer,
		"commitlog_sync":                   string(o.CommitLogSync),
		"commitlog_sync_period":            o.CommitLogSyncPeriod.String(),
		"memory_limit":                     size(o.Memory.Figure),
		"block_cache_size":                 size(o.CacheBytes),
		"memtable_heap_space":              size(o.MemTableBytes),
		"vector_index_graph_size":          size(o.VectorGraphBytes),
		"read_request_timeout":             o.ReadTimeout.String(),
		"range_request_timeout":            o.RangeTimeout.String(),
		"write_request_timeout":            o.WriteTimeout.String(),
		"cas_contention_timeout":           o.CASTimeout.String(),
		"counter_write_request_timeout":    o.CounterTimeout.String(),
		"truncate_request_timeout":         o.TruncateTimeout.String(),
		"max_hint_window":                  o.HintWindow.String(),
		"trace_storage_limit":              size(o.TraceBytesMax),
		"index_build_throughput":           size(o.IndexBuildThroughput) + "/s",
		"stream_throughput_outbound":       size(o.StreamThroughput) + "/s",
		"auto_repair_enabled":              strconv.FormatBool(o.AutoRepair),
		"auto_repair_min_repair_interval":  o.AutoRepairInterval.String(),
		"auto_repair_throughput":           size(o.RepairThroughput) + "/s",
		"dynamic_data_masking_enabled":     strconv.FormatBool(o.DynamicDataMasking),
		"maximum_timestamp_fail_threshold": o.MaxTimestampAhead.String(),
		"maximum_timestamp_warn_threshold": o.WarnTimestampAhead.String(),
		"native_transport_max_frame_size":  size(int64(o.MaxFrameBytes)),
		"batch_size_warn_threshold":        size(int64(o.BatchWarnBytes)),
		"batch_size_fail_threshold":        size(int64(o.BatchFailBytes)),
	}
	if o.BroadcastRPCAddress.IsValid() {
		all["broadcast_rpc_address"] = o.BroadcastRPCAddress.String()
	}
	all["development"] = strconv.FormatBool(o.DevelopmentMode)
	all["materialized_views_enabled"] = strconv.FormatBool(!o.ViewsDisabled)
	all["allow_insecure_listen_addresses"] = strconv.FormatBool(o.AllowInsecureAddresses)
	maps.Copy(all, o.InternodeEncryption.settings())
	maps.Copy(all, guardrailTexts(o))
	maps.Copy(all, o.indexValues())
	maps.Copy(all, o.functionValues())
	return all
}
