package node

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"cqld/node/assembly"
	"cqld/query/system"
	"cqld/ring"
)

// systemTables returns the content of the system tables of this node.
func (n *Node) systemTables() *system.Source {
	return system.New(system.Options{
		View: shownRing{n.parts.View}, ClusterName: n.opts.ClusterName, Generation: int32(n.clock.Now().Unix()),
		Clients: n.clients, Estimate: n.estimates.shown, Settings: n.opts.settings, Jobs: n.shownJobs, Roles: n.roles, Figures: n.shownFigures(),
	})
}

// shownRing is the cluster as clients see it.
type shownRing struct{ assembly.View }

// Topology implements system.View. After decommissioning, clients of this node keep seeing the last topology that contained
// it.
func (v shownRing) Topology() *ring.Topology { return v.Cluster.LastRing() }

// clients returns the open connections. It is first called by a connection, so the server exists.
func (n *Node) clients() []system.Client {
	var out []system.Client
	s := n.server.Load()
	if s == nil {
		return nil
	}
	for _, c := range s.Clients() {
		out = append(out, system.Client{Address: c.Address, User: c.User, Stage: strings.ToLower(c.Stage),
			ProtocolVersion: c.ProtocolVersion, Options: c.Options, Keyspace: c.Keyspace, Requests: c.Requests, TLS: c.TLS})
	}
	return out
}

// shownJobs returns the jobs for system_views.jobs.
func (n *Node) shownJobs() []system.Job {
	var out []system.Job
	for _, s := range n.listJobs() {
		j := shownJob(&s)
		out = append(out, system.Job{ID: j.ID, Kind: j.Kind, Target: j.Target, State: j.State, Phase: j.Phase, Error: j.Error, Done: j.Done,
			Total: j.Total, Unit: j.Unit, Left: j.Left, Attempt: j.Attempt, Resumable: j.Resumable, Created: j.Created, Began: j.Began, Ended: j.Ended})
	}
	return out
}

func (o *Options) controlAddress() string {
	if !o.ControlAddress.IsValid() {
		return ""
	}
	return o.ControlAddress.String()
}

// settings returns the options in the form of system_views.settings, under their names in the file.
func (o *Options) settings() map[string]string {
	size := func(n int64) string { return fmt.Sprintf("%dB", n) }
	all := map[string]string{
		"cluster_name":                     o.ClusterName,
		"num_tokens":                       strconv.Itoa(o.NumTokens),
		"data_file_directories":            "[" + o.DataDir + "]",
		"listen_address":                   o.ListenAddress.String(),
		"storage_port":                     strconv.Itoa(int(o.StoragePort)),
		"rpc_address":                      o.RPCAddress.String(),
		"native_transport_port":            strconv.Itoa(int(o.NativeTransportPort)),
		"seeds":                            strings.Join(o.seedTexts(), ","),
		"control_address":                  o.controlAddress(),
		"partitioner":                      "org.apache.cassandra.dht.Murmur3Partitioner",
		"authenticator":                    o.Access.Authenticator,
		"authorizer":                       o.Access.Authorizer,
		"role_manager":                     "CassandraRoleManager",
		"network_authorizer":               o.Access.NetworkAuthorizer,
		"cidr_authorizer":                  o.Access.CIDRAuthorizer,
		"commitlog_sync":                   string(o.CommitLogSync),
		"commitlog_sync_period":            o.CommitLogSyncPeriod.String(),
		"block_cache_size":                 size(o.CacheBytes),
		"memtable_heap_space":              size(o.MemTableBytes),
		"read_request_timeout":             o.ReadTimeout.String(),
		"range_request_timeout":            o.RangeTimeout.String(),
		"write_request_timeout":            o.WriteTimeout.String(),
		"cas_contention_timeout":           o.CASTimeout.String(),
		"counter_write_request_timeout":    o.CounterTimeout.String(),
		"truncate_request_timeout":         o.TruncateTimeout.String(),
		"max_hint_window":                  o.HintWindow.String(),
		"stream_throughput_outbound":       size(o.StreamThroughput) + "/s",
		"auto_repair_enabled":              strconv.FormatBool(o.AutoRepair),
		"auto_repair_min_repair_interval":  o.AutoRepairInterval.String(),
		"auto_repair_throughput":           size(o.RepairThroughput) + "/s",
		"dynamic_data_masking_enabled":     strconv.FormatBool(o.DynamicDataMasking),
		"maximum_timestamp_fail_threshold": o.MaxTimestampAhead.String(),
		"native_transport_max_frame_size":  size(int64(o.MaxFrameBytes)),
		"batch_size_warn_threshold":        size(int64(o.BatchWarnBytes)),
		"batch_size_fail_threshold":        size(int64(o.BatchFailBytes)),
	}
	all["allow_insecure_listen_addresses"] = strconv.FormatBool(o.AllowInsecureAddresses)
	maps.Copy(all, o.InternodeEncryption.settings())
	maps.Copy(all, guardrailTexts(o))
	maps.Copy(all, o.indexValues())
	maps.Copy(all, o.functionValues())
	return all
}
