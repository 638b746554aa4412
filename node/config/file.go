package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"cqld/azuretables"
	"cqld/internal/typo"
	"cqld/tlsconfig"
)

// setting reads one option's value.
type setting func(o *Options, v *yaml.Node) error

// settings returns the options of the file by their names in cassandra.yaml.
func settings() map[string]setting {
	all := map[string]setting{
		"cluster_name":                    text(func(o *Options) *string { return &o.ClusterName }),
		"datacenter":                      text(func(o *Options) *string { return &o.Datacenter }),
		"rack":                            text(func(o *Options) *string { return &o.Rack }),
		"num_tokens":                      number(func(o *Options) *int { return &o.Join.NumTokens }),
		"initial_token":                   setInitialTokens,
		"materialized_views_enabled":      falsehood(func(o *Options) *bool { return &o.ViewsDisabled }),
		"data_file_directories":           setDataDirs,
		"listen_address":                  setListenAddress,
		"storage_port":                    port(func(o *Options) *uint16 { return &o.Listen.StoragePort }),
		"rpc_address":                     setRPCAddress,
		"native_transport_port_ssl":       setEncryptedPort,
		"client_encryption_options":       setEncryption(func(o *Options) *Encryption { return &o.Encryption.Clients }),
		"control_encryption_options":      setControlEncryption,
		"server_encryption_options":       setInternodeEncryption,
		"allow_insecure_listen_addresses": truth(func(o *Options) *bool { return &o.Listen.AllowInsecure }),
		"native_transport_port":           port(func(o *Options) *uint16 { return &o.Listen.NativePort }),
		"tables_port":                     portOrNone(func(o *Options) *uint16 { return &o.Tables.Port }),
		"tables_accounts":                 setTablesAccounts,
		"tables_consistency":              setTablesConsistency,
		"tables_hosts":                    setTablesHosts,
		"tables_partition_target":         number(func(o *Options) *int { return &o.Tables.PartitionTarget }),
		"tables_account_target":           number(func(o *Options) *int { return &o.Tables.AccountTarget }),
		"tables_max_connections":          number(func(o *Options) *int { return &o.Tables.MaxConnections }),
		"tables_max_properties":           number(func(o *Options) *int { return &o.Tables.MaxProperties }),
		"tables_max_entity_size":          size(func(o *Options) *int { return &o.Tables.MaxEntityBytes }),
		"tables_max_batch_operations":     number(func(o *Options) *int { return &o.Tables.MaxBatchOperations }),
		"paging_state_secret":             text(func(o *Options) *string { return &o.PagingSecret }),
		"seeds":                           setSeeds,
		"replace_address_first_boot":      text(func(o *Options) *string { return &o.Join.Replace }),
		"control_address":                 setControlAddress,
		"health_address":                  setHealthAddress,
		"seed_provider":                   setSeedProvider,
		"partitioner": only("org.apache.cassandra.dht.Murmur3Partitioner",
			"Murmur3Partitioner"),
		"endpoint_snitch":              only("SimpleSnitch", "GossipingPropertyFileSnitch"),
		"start_native_transport":       only("true"),
		"trace_storage_limit":          size64(func(o *Options) *int64 { return &o.TraceBytesMax }),
		"dynamic_data_masking_enabled": truth(func(o *Options) *bool { return &o.DynamicDataMasking }),
		"audit_logging_options":        setAuditLogging,
	}
	// No name is in two of the groups, so their order has no effect.
	maps.Copy(all, storageSettings())
	maps.Copy(all, timeoutSettings())
	maps.Copy(all, backgroundSettings())
	maps.Copy(all, requestSettings())
	maps.Copy(all, developmentSettings())
	maps.Copy(all, accessSettings())
	maps.Copy(all, guardrailSettings())
	maps.Copy(all, indexSettings())
	maps.Copy(all, functionSettings())
	maps.Copy(all, clientLimitSettings())
	maps.Copy(all, atRestSettings())
	return all
}

// storageSettings returns the options of the commit log and of memory.
func storageSettings() map[string]setting {
	return map[string]setting{
		"commitlog_sync":          setCommitLogSync,
		"commitlog_sync_period":   duration(func(o *Options) *time.Duration { return &o.CommitLog.SyncPeriod }),
		"backup_log":              text(func(o *Options) *string { return &o.CommitLog.Archive }),
		"backup_log_space":        size64(func(o *Options) *int64 { return &o.CommitLog.ArchiveSpace }),
		"memory_limit":            size64(func(o *Options) *int64 { return &o.Memory.Limit }),
		"block_cache_size":        size64(func(o *Options) *int64 { return &o.Memory.CacheBytes }),
		"point_read_cache_size":   size64(func(o *Options) *int64 { return &o.Memory.RowCacheBytes }),
		"vector_index_graph_size": size64(func(o *Options) *int64 { return &o.Memory.VectorGraphBytes }),
		"memtable_heap_space":     size64(func(o *Options) *int64 { return &o.Memory.MemTableBytes }),
	}
}

// timeoutSettings returns the options of the timeouts of requests.
func timeoutSettings() map[string]setting {
	return map[string]setting{
		"read_request_timeout":          duration(func(o *Options) *time.Duration { return &o.Timeouts.Read }),
		"range_request_timeout":         duration(func(o *Options) *time.Duration { return &o.Timeouts.Range }),
		"write_request_timeout":         duration(func(o *Options) *time.Duration { return &o.Timeouts.Write }),
		"cas_contention_timeout":        duration(func(o *Options) *time.Duration { return &o.Timeouts.CAS }),
		"counter_write_request_timeout": duration(func(o *Options) *time.Duration { return &o.Timeouts.Counter }),
		"truncate_request_timeout":      duration(func(o *Options) *time.Duration { return &o.Timeouts.Truncate }),
	}
}

// backgroundSettings returns the options of work that no request waits for.
func backgroundSettings() map[string]setting {
	return map[string]setting{
		"max_hint_window": duration(func(o *Options) *time.Duration {
			return &o.Background.HintWindow
		}),
		"index_build_throughput":     rate(func(o *Options) *int64 { return &o.Background.IndexBuildThroughput }),
		"stream_throughput_outbound": rate(func(o *Options) *int64 { return &o.Background.StreamThroughput }),
		"auto_repair_enabled":        truth(func(o *Options) *bool { return &o.Background.AutoRepair }),
		"auto_repair_min_repair_interval": duration(func(o *Options) *time.Duration {
			return &o.Background.AutoRepairInterval
		}),
		"auto_repair_throughput": rate(func(o *Options) *int64 { return &o.Background.RepairThroughput }),
		"auto_snapshot": func(o *Options, v *yaml.Node) (err error) {
			o.Snapshots.Auto, err = truthOf(v)
			o.Snapshots.autoSet = true
			return err
		},
		"drop_grace":        duration(func(o *Options) *time.Duration { return &o.DropGrace }),
		"auto_snapshot_ttl": duration(func(o *Options) *time.Duration { return &o.Snapshots.TTL }),
	}
}

// requestSettings returns the options of the requests of CQL clients.
func requestSettings() map[string]setting {
	return map[string]setting{
		"allow_nodelocal_consistency": truth(func(o *Options) *bool { return &o.Requests.NodeLocal }),
		"maximum_timestamp_fail_threshold": duration(func(o *Options) *time.Duration {
			return &o.Requests.MaxTimestampAhead
		}),
		"maximum_timestamp_warn_threshold": duration(func(o *Options) *time.Duration {
			return &o.Requests.WarnTimestampAhead
		}),
		"native_transport_max_frame_size":             size(func(o *Options) *int { return &o.Requests.MaxFrameBytes }),
		"native_transport_max_concurrent_connections": bound(func(o *Options) *int { return &o.Requests.MaxClients }),
		"batch_size_warn_threshold": size(func(o *Options) *int {
			return &o.Requests.BatchWarnBytes
		}),
		"batch_size_fail_threshold": size(func(o *Options) *int {
			return &o.Requests.BatchFailBytes
		}),
	}
}

// LoadFile reads options from a YAML file into o. Every unknown option and every bad value is an error that names its
// line. Secrets require that only the owner can read the file. The file's mode is checked after parsing, because only
// secrets need it.
func (o *Options) LoadFile(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	if err := o.parse(path, b); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	switch {
	// One secret of any kind is enough: all need the same mode.
	case o.PagingSecret != "":
		err = tlsconfig.CheckPrivate(path, "paging_state_secret", info)
	case len(o.Tables.Accounts) > 0:
		err = tlsconfig.CheckPrivate(path, "account keys", info)
	case o.Encryption.Clients.secret(o.Encryption.Clients.Used()),
		o.Encryption.Internode.secret(o.Encryption.Internode.Used()),
		o.Encryption.Control.secret(o.Encryption.Control.Used()):
		err = tlsconfig.CheckPrivate(path, "a private key or its password", info)
	default:
		if err = o.AtRest.checkFile(path, info); err == nil {
			err = o.BackupKeys.checkFile(path, info)
		}
	}
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	return nil
}

// parse reads the options of a file with this content. path is for messages only.
func (o *Options) parse(path string, b []byte) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	// An empty file, or one that consists of comments, sets nothing.
	if len(doc.Content) == 0 {
		return nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: expected lines of the form `name: value`", path, root.Line)
	}
	r := newReader(o)
	var errs []error
	// All lines are read, so that one start reports all errors.
	for _, pair := range seedsLast(root.Content) {
		key, value := pair[0], pair[1]
		if err := r.set(key.Value, value, fmt.Sprintf("line %d", key.Line)); err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %s: %w", path, key.Line, key.Value, err))
		}
	}
	// Only now both options have been read, whatever their order.
	if err := o.checkInitialTokens(r.values); err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", path, err))
	}
	if w := r.warning(); w != "" {
		o.Warnings = append(o.Warnings, path+": "+w)
	}
	return errors.Join(errs...)
}

// seedsLast returns the lines of the file with the seeds at the end, because their default port is storage_port, which
// may follow them in the file, and broadcast addresses, which are compared with the others.
func seedsLast(content []*yaml.Node) [][2]*yaml.Node {
	// Keys and values alternate in the content of a mapping.
	var first, last [][2]*yaml.Node
	for i := 0; i+1 < len(content); i += 2 {
		pair := [2]*yaml.Node{content[i], content[i+1]}
		if name := content[i].Value; strings.HasPrefix(name, "seed") || strings.HasPrefix(name, "broadcast_") {
			last = append(last, pair)
		} else {
			first = append(first, pair)
		}
	}
	return append(first, last...)
}

// unknownName returns the message for an unknown option, which proposes the known one with the most similar name.
func unknownName[S any](name string, known map[string]S) string {
	if similar := typo.Nearest(name, maps.Keys(known), typosMax); similar != "" {
		return "unknown option; did you mean " + similar + "?"
	}
	return "unknown option, in cqld and in Cassandra 3.11 to 6"
}

// scalar returns the text of a value that is neither null nor a collection.
func scalar(v *yaml.Node) (string, error) {
	// YAML has null as a scalar, too: an option without a value is a mistake here.
	if v.Kind != yaml.ScalarNode || v.Tag == "!!null" {
		return "", errors.New("expected one value")
	}
	return v.Value, nil
}

// text returns the setting of a field that takes any text.
func text(field func(*Options) *string) setting {
	return func(o *Options, v *yaml.Node) error {
		s, err := scalar(v)
		if err == nil {
			*field(o) = s
		}
		return err
	}
}

// number returns the setting of a field that takes a whole number. Validate knows the range of each.
func number(field func(*Options) *int) setting {
	return func(o *Options, v *yaml.Node) error {
		// The text and not YAML's number, which may be 0x10, 1_000 or 1e3.
		n, err := strconv.Atoi(v.Value)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", v.Value)
		}
		*field(o) = n
		return nil
	}
}

// port returns the setting of a field that takes a port.
func port(field func(*Options) *uint16) setting {
	return func(o *Options, v *yaml.Node) error {
		n, err := strconv.ParseUint(v.Value, 10, 16)
		// With 0, the system would choose a port that neither clients nor nodes know.
		if err != nil || n == 0 {
			return fmt.Errorf("%q is not a port between 1 and 65535", v.Value)
		}
		*field(o) = uint16(n)
		return nil
	}
}

// portOrNone reads a port, or 0 for none.
func portOrNone(field func(*Options) *uint16) setting {
	return func(o *Options, v *yaml.Node) error {
		if v.Value == "0" {
			*field(o) = 0
			return nil
		}
		return port(field)(o, v)
	}
}

// setTablesAccounts reads a list of names, keys and, optionally, roles and consistencies.
func setTablesAccounts(o *Options, v *yaml.Node) error {
	// Complete before it is set: after an error, the earlier list stays.
	var accounts []azuretables.Account
	if v.Kind != yaml.SequenceNode {
		return errors.New("expected a list of {name, key}")
	}
	for _, e := range v.Content {
		var a struct {
			Name        string `yaml:"name"`
			Key         string `yaml:"key"`
			Role        string `yaml:"role"`
			Consistency string `yaml:"consistency"`
			// Unknown holds every other field. Without it, the decoder would ignore them.
			Unknown map[string]yaml.Node `yaml:",inline"`
		}
		err := e.Decode(&a)
		// A misspelt field comes before what is missing because of it.
		if len(a.Unknown) > 0 {
			name := slices.Min(slices.Collect(maps.Keys(a.Unknown)))
			return fmt.Errorf("line %d: %s: unknown field; the fields of an account are name, key, role and "+
				"consistency", a.Unknown[name].Line, name)
		}
		if err != nil || a.Name == "" || a.Key == "" {
			return fmt.Errorf("line %d: expected {name, key}", e.Line)
		}
		accounts = append(accounts, azuretables.Account{Name: a.Name, Key: a.Key, Role: a.Role,
			Consistency: strings.ToUpper(a.Consistency)})
	}
	// The list replaces an earlier one, as of a file before the environment.
	o.Tables.Accounts = accounts
	return nil
}

// setTablesConsistency reads the level in any case. validateTables knows which levels are possible.
func setTablesConsistency(o *Options, v *yaml.Node) error {
	o.Tables.Consistency = strings.ToUpper(v.Value)
	return nil
}

// setTablesHosts reads the names that may be in the Host header of a request.
func setTablesHosts(o *Options, v *yaml.Node) error {
	if v.Kind != yaml.SequenceNode {
		return errors.New("expected a list of host names")
	}
	var hosts []string
	for _, e := range v.Content {
		if e.Kind != yaml.ScalarNode || e.Value == "" || strings.ContainsAny(e.Value, ":/ ") {
			return fmt.Errorf("line %d: expected a host name without a port", e.Line)
		}
		// The server compares names in lower case, as the DNS does.
		hosts = append(hosts, strings.ToLower(e.Value))
	}
	o.Tables.Hosts = hosts
	return nil
}

// duration returns the setting of a field that takes a duration with a unit.
func duration(field func(*Options) *time.Duration) setting {
	return func(o *Options, v *yaml.Node) error {
		d, err := ParseDuration(v.Value)
		if err == nil {
			*field(o) = d
		}
		return err
	}
}

// ParseDuration reads a duration as cassandra.yaml writes it: 200ms, 10s, 5m, 3h, 1d. Units may not be combined, and
// there are neither fractions nor signs.
func ParseDuration(s string) (time.Duration, error) {
	// The units that end in another unit come before it: ms, us and ns before s.
	for _, u := range []struct {
		suffix string
		unit   time.Duration
	}{{"ms", time.Millisecond}, {"us", time.Microsecond}, {"µs", time.Microsecond}, {"ns", 1}, {"s", time.Second},
		{"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour}} {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 63)
		// The bound depends on the unit, because the product has to fit.
		if err != nil || n > uint64(1<<63-1)/uint64(u.unit) {
			break
		}
		return time.Duration(n) * u.unit, nil
	}
	return 0, fmt.Errorf("%q is not a duration such as 200ms, 10s, 5m, 3h or 1d", s)
}

// size returns the setting of a field that takes a number of bytes with a unit.
func size(field func(*Options) *int) setting {
	return func(o *Options, v *yaml.Node) error {
		n, err := ParseSize(v.Value)
		if err == nil {
			*field(o) = int(n)
		}
		return err
	}
}

// size64 is size for fields that may exceed the int of a 32-bit system.
func size64(field func(*Options) *int64) setting {
	return func(o *Options, v *yaml.Node) error {
		n, err := ParseSize(v.Value)
		if err == nil {
			*field(o) = n
		}
		return err
	}
}

// rate reads a number of bytes per second: 24MiB/s.
func rate(field func(*Options) *int64) setting {
	return func(o *Options, v *yaml.Node) error {
		// A size without /s is an error, because older options of Cassandra count megabits.
		digits, ok := strings.CutSuffix(v.Value, "/s")
		n, err := ParseSize(digits)
		if !ok || err != nil {
			return fmt.Errorf("%q is not a rate such as 512KiB/s or 24MiB/s", v.Value)
		}
		*field(o) = n
		return nil
	}
}

// truth returns the setting of a field that takes true or false.
func truth(field func(*Options) *bool) setting {
	return func(o *Options, v *yaml.Node) error {
		b, err := truthOf(v)
		if err == nil {
			*field(o) = b
		}
		return err
	}
}

// truthOf reads true or false.
func truthOf(v *yaml.Node) (bool, error) {
	switch v.Value {
	// Other spellings of YAML 1.1, such as on, would leave in doubt what a misspelt one means.
	case "true", "false":
		return v.Value == "true", nil
	}
	return false, fmt.Errorf("%q is neither true nor false", v.Value)
}

// ParseSize reads a number of bytes as cassandra.yaml writes it: 512B, 64KiB, 16MiB, 1GiB. Units are powers of 1,024.
// The result is at most 2^62.
func ParseSize(s string) (int64, error) {
	// B comes last, because all other units end in it.
	for _, u := range []struct {
		suffix string
		shift  uint
	}{{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"B", 0}} {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		// The bound is shifted and not the number, which could overflow.
		if err != nil || n < 0 || n > (1<<62)>>u.shift {
			break
		}
		return n << u.shift, nil
	}
	return 0, fmt.Errorf("%q is not a size such as 64KiB, 16MiB or 1GiB", s)
}

// only accepts the values of an option that has a single supported meaning in cqld.
func only(values ...string) setting {
	return func(_ *Options, v *yaml.Node) error {
		if slices.Contains(values, v.Value) {
			return nil
		}
		return fmt.Errorf("%q is not supported yet; it is %s", v.Value, values[0])
	}
}

// setCommitLogSync reads when a write is acknowledged. Cassandra's third mode, group, does not exist here.
func setCommitLogSync(o *Options, v *yaml.Node) error {
	switch s := CommitLogSync(v.Value); s {
	case SyncBatch, SyncPeriodic:
		o.CommitLog.Sync = s
		return nil
	}
	return fmt.Errorf("%q is neither batch nor periodic", v.Value)
}

// setDataDirs reads data_file_directories. Cassandra spreads its files over several; Pebble has one directory.
func setDataDirs(o *Options, v *yaml.Node) error {
	if v.Kind != yaml.SequenceNode || len(v.Content) != 1 {
		return errors.New("expected a list of one directory; several are not supported yet")
	}
	s, err := scalar(v.Content[0])
	if err == nil {
		o.DataDir = s
	}
	return err
}
