package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"cqld/ring"
)

// renamed is an option under the name that it has in older versions of Cassandra. The value is converted to the form
// that the new option reads, so each option is parsed in one place. Cassandra 4.1 renamed most options: the unit moved
// from the name to the value (CASSANDRA-15234).
type renamed struct {
	name string // the new name
	// convert returns the value in the new form: older versions write units in the name. nil means that the values are
	// equal.
	convert func(value string) (string, error)
}

// renamedOptions returns the options with a meaning in cqld by their names in older versions of Cassandra. Both names
// may not be set at once, because they set the same option. For example batch_size_warn_threshold_in_kb: 5 is read as
// batch_size_warn_threshold: 5KiB.
func renamedOptions() map[string]renamed {
	all := map[string]renamed{
		"batch_size_warn_threshold_in_kb":       {"batch_size_warn_threshold", unit("KiB")},
		"batch_size_fail_threshold_in_kb":       {"batch_size_fail_threshold", unit("KiB")},
		"enable_drop_compact_storage":           {"drop_compact_storage_enabled", nil},
		"enable_materialized_views":             {"materialized_views_enabled", nil},
		"enable_sasi_indexes":                   {"sasi_indexes_enabled", nil},
		"enable_user_defined_functions":         {"user_defined_functions_enabled", nil},
		"keyspace_count_warn_threshold":         {"keyspaces_warn_threshold", nil},
		"table_count_warn_threshold":            {"tables_warn_threshold", nil},
		"memtable_heap_space_in_mb":             {"memtable_heap_space", unit("MiB")},
		"native_transport_max_frame_size_in_mb": {"native_transport_max_frame_size", unit("MiB")},
		"native_transport_max_concurrent_requests_in_bytes": {"native_transport_max_request_data_in_flight",
			bytesOrDefault},
		"native_transport_max_concurrent_requests_in_bytes_per_ip": {
			"native_transport_max_request_data_in_flight_per_ip", bytesOrDefault,
		},
		"stream_throughput_outbound_megabits_per_sec": {"stream_throughput_outbound", megabits},
		"user_defined_function_warn_timeout":          {"user_defined_functions_warn_timeout", unit("ms")},
		"user_defined_function_fail_timeout":          {"user_defined_functions_fail_timeout", unit("ms")},
	}
	// Each option in milliseconds has the name of the new one with a suffix.
	for _, name := range []string{"cas_contention_timeout", "commitlog_sync_period", "counter_write_request_timeout",
		"credentials_validity",
		"max_hint_window", "native_transport_idle_timeout", "range_request_timeout", "read_request_timeout",
		"truncate_request_timeout",
		"write_request_timeout"} {
		all[name+"_in_ms"] = renamed{name, unit("ms")}
	}
	return all
}

// read returns the value of an option in its new form. A null is passed on: the option itself decides what it means.
// The line and column stay the same, so errors name the place in the file. The error does not name the option; the
// caller does.
func (r renamed) read(v *yaml.Node) (*yaml.Node, error) {
	// Without a unit in the name, the value has the same form under both names.
	if r.convert == nil || v.Tag == "!!null" {
		return v, nil
	}
	s, err := scalar(v)
	if err != nil {
		return nil, err
	}
	// A copy, because v belongs to the file and is also in options.
	converted := *v
	converted.Value, err = r.convert(s)
	return &converted, err
}

// unit returns a conversion that adds a unit to a whole number. A number with a fraction or a sign is an error: the new
// form allows neither. The unit is one that ParseDuration or ParseSize reads.
func unit(suffix string) func(string) (string, error) {
	return func(value string) (string, error) {
		// 63 bits, because the new option reads an int64 or a duration.
		if _, err := strconv.ParseUint(value, 10, 63); err != nil {
			return "", fmt.Errorf("%q is not a whole number of %s", value, suffix)
		}
		return value + suffix, nil
	}
}

// bytesOrDefault converts a number of bytes. As in Cassandra, -1 means the default, which is 0 here. The new options
// write the default as 0.
func bytesOrDefault(value string) (string, error) {
	if value == "-1" {
		return "0B", nil
	}
	return unit("B")(value)
}

// megabits converts megabits per second, of 10^6 bits, to a rate in bytes. Megabits of network throughput are decimal;
// the new options count bytes. For example 200 megabits per second are 25,000,000 bytes per second.
func megabits(value string) (string, error) {
	// 32 bits, so that the product below cannot overflow.
	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil {
		return "", fmt.Errorf("%q is not a whole number of megabits per second", value)
	}
	return strconv.FormatUint(n*1_000_000/8, 10) + "B/s", nil
}

// options are the options of a file that is read. Names are the new ones. Old names are replaced before an option is
// added.
type options map[string]*yaml.Node

// promised is an option of Cassandra that promises something that cqld does not do. Only values that promise nothing
// are accepted. Values that promise nothing are what Cassandra's own file contains. It differs from an inert option,
// which may have any value: an inert option does not promise anything to clients or operators. Accepting it would be a
// false sense of safety: with cdc_enabled: true, an operator expects files that nothing writes.
type promised struct {
	// harmless may look at the options that precede v in the file, such as the option that v has to equal.
	harmless func(v *yaml.Node, file options) bool
	reason   string // why other values are refused, and what to do instead
}

// promisedOptions returns these options, in the order of Cassandra's file. Most accepted values are the defaults of
// Cassandra's file. Reasons are parts of sentences: set adds how to remove the option.
func promisedOptions() map[string]promised {
	all := map[string]promised{
		"cdc_enabled":                {off, "there is no change data capture"},
		"incremental_backups":        {off, "there are no incremental backups; use `cqld ctl snapshot`"},
		"snapshot_before_compaction": {off, "compaction makes no snapshots; use `cqld ctl snapshot`"},
		"hinted_handoff_enabled": {on, "hints are always stored; `cqld ctl disablehandoff` stops that until " +
			"the next start"},
		"auto_bootstrap":              {on, "a node that joins always streams its data"},
		"partition_denylist_enabled":  {off, "partitions cannot be denied"},
		"start_rpc":                   {off, "Thrift is not supported; use CQL"},
		"listen_on_broadcast_address": {off, "a node has one address for other nodes"},
		"default_keyspace_rf": {oneOf("1"), "a keyspace without a replication factor has four replicas, or " +
			"as many as there are nodes"},
		"use_statements_enabled": {on, "USE cannot be disabled"},
		"triggers_policy": {oneOf("enabled", "forbidden"),
			"there are no triggers, and CREATE TRIGGER is refused"},
		"diagnostic_events_enabled": {off, "there are no diagnostic events; use metrics and the log"},
		"bulk_load_enabled":         {on, "sstables cannot be loaded"},
		"max_comment_length":        {oneOf("128"), "the bound is 128"},
		"max_security_label_length": {oneOf("48"), "the bound is 48"},
		"request_scheduler":         {oneOf("NoScheduler"), "requests are scheduled fairly by role and address"},
		"node_proximity": {oneOf("NoOpProximity", "NetworkTopologyProximity"),
			"set datacenter and rack in this file"},
		"initial_location_provider": {oneOf("SimpleLocationProvider", "RackDCFileLocationProvider"),
			"set datacenter and rack in this file"},
		"crypto_provider": {oneOf("DefaultCryptoProvider", "JREProvider"),
			"cqld uses the cryptography of Go"},
		"internode_authenticator": {oneOf("AllowAllInternodeAuthenticator"),
			"set server_encryption_options: nodes authenticate by certificates"},
		"encryption_options": {nothing, "set server_encryption_options"},
		"listen_interface":   {nothing, "set listen_address"},
		"rpc_interface":      {nothing, "set rpc_address"},
		"broadcast_address": {equals("listen_address"),
			"a node has one address for other nodes; set listen_address"},
		"corrupted_tombstone_strategy": {oneOf("disabled"),
			"blocks of files have checksums, and there is no further check"},
		"accord": {disabledGroup,
			"there are no Accord transactions; use conditional statements and batches"},
		"jmx_server_options": {disabledGroup,
			"there is no JMX; use `cqld ctl`, control_address and the metrics"},
		"transient_replication_enabled": {off, "there are no transient replicas"},
		"scripted_user_defined_functions_enabled": {off,
			"functions are written in Lua, WebAssembly or Java, not in JavaScript"},
	}
	// Two options have an old name, too. Both versions' names are accepted without a warning about the name, because
	// the option is not known.
	all["enable_transient_replication"] = all["transient_replication_enabled"]
	all["enable_scripted_user_defined_functions"] = all["scripted_user_defined_functions_enabled"]
	for _, name := range []string{"hinted_handoff_disabled_datacenters", "keyspace_properties_warned",
		"keyspace_properties_ignored",
		"keyspace_properties_disallowed", "password_policy", "role_name_policy",
		"minimum_client_driver_versions_warned",
		"minimum_client_driver_versions_disallowed"} {
		// An empty list of these means that nothing is restricted.
		all[name] = promised{nothing, "there is nothing like it in cqld"}
	}
	for _, name := range []string{"read_thresholds_enabled", "write_thresholds_enabled",
		"data_disk_usage_keyspace_wide_protection_enabled"} {
		all[name] = promised{off, noGuardrail}
	}
	for _, name := range []string{"data_disk_usage_percentage", "minimum_timestamp", "column_ascii_value_size",
		"column_blob_value_size",
		"column_text_and_varchar_value_size", "column_varchar_value_size", "collection_map_size",
		"collection_set_size", "collection_list_size"} {
		// -1 is the value that disables a threshold in Cassandra.
		all[name+"_warn_threshold"] = promised{oneOf("-1"), noGuardrail}
		all[name+"_fail_threshold"] = promised{oneOf("-1"), noGuardrail}
	}
	// Their warning thresholds are inert.
	for _, name := range []string{"sai_sstable_indexes_per_query", "partition_size", "partition_tombstones"} {
		all[name+"_fail_threshold"] = promised{oneOf("-1"), noGuardrail}
	}
	return all
}

// noGuardrail is the reason of guardrails that Cassandra has and cqld does not.
const noGuardrail = "cqld does not have this guardrail"

// off accepts false. A null is the default, which is false here. Any other text is refused.
func off(v *yaml.Node, _ options) bool {
	return v.Tag == "!!null" || strings.EqualFold(v.Value, "false")
}

// on accepts true. A null is the default, which is true here.
func on(v *yaml.Node, _ options) bool { return v.Tag == "!!null" || strings.EqualFold(v.Value, "true") }

// nothing accepts an empty text, list or group. An option of this kind is only accepted if it is not set to anything.
func nothing(v *yaml.Node, _ options) bool {
	return v.Tag == "!!null" || v.Kind != yaml.ScalarNode && len(v.Content) == 0 || v.Kind == yaml.ScalarNode &&
		v.Value == ""
}

// oneOf returns a check that accepts these values, or classes with these names in any package. The last part of a
// class's name is compared; any other text is compared as a whole. A list of one element is unwrapped, because
// Cassandra 5 writes some classes so.
func oneOf(accepted ...string) func(*yaml.Node, options) bool {
	return func(v *yaml.Node, _ options) bool {
		text := v.Value
		// Class options are sometimes a list of one.
		if v.Kind == yaml.SequenceNode && len(v.Content) == 1 {
			v = v.Content[0]
		}
		if name, _, err := classOf(v); err == nil {
			text = name
		}
		return v.Tag == "!!null" || slices.Contains(accepted, text[strings.LastIndexByte(text, '.')+1:])
	}
}

// equals returns a check that accepts the value of another option. An unset option means the default, which is the
// other one. other has been read before, because broadcast addresses are read last (seedsLast).
func equals(other string) func(*yaml.Node, options) bool {
	return func(v *yaml.Node, file options) bool {
		return nothing(v, file) || file[other] != nil && file[other].Value == v.Value
	}
}

// disabledGroup accepts a group of options that says enabled: false, or nothing about it. A group without enabled says
// nothing that needs an answer.
func disabledGroup(v *yaml.Node, file options) bool {
	// Other options of a disabled group promise nothing.
	for i := 0; i+1 < len(v.Content); i += 2 {
		if v.Content[i].Value == "enabled" {
			return off(v.Content[i+1], file)
		}
	}
	return nothing(v, file) || v.Kind == yaml.MappingNode
}

// unsupported returns a note about options that cqld accepts because they are in every file of Cassandra, although they
// promise something. The options are in inertNames, so they are known; this function says what they do not do here. It
// is empty for other options. The values of these options are defaults of Cassandra's file, so refusing them would
// refuse every file.
func unsupported(name string) string {
	if name == "tombstone_failure_threshold" {
		return "reads of many tombstones do not fail (tombstone_failure_threshold)"
	}
	return ""
}

// initialTokensMax bounds initial_token, as the cluster bounds num_tokens. The cluster's bound is on the tokens of one
// node. A longer list is refused before it is parsed.
const initialTokensMax = 1024

// setInitialTokens reads initial_token: tokens of a new node, separated by commas. For example "-9223372036854775807,
// 0, 42". Tokens are not compared with the tokens of other nodes here: the cluster does that at the join.
func setInitialTokens(o *Options, v *yaml.Node) error {
	// A file that is read twice, as by tests, does not accumulate tokens.
	o.Join.Tokens = nil
	// An empty value lets the cluster choose the tokens.
	if v.Tag == "!!null" || v.Kind == yaml.ScalarNode && strings.TrimSpace(v.Value) == "" {
		return nil
	}
	list, err := texts(v)
	if err != nil {
		return err
	}
	// A YAML list or one text with commas.
	if len(list) == 1 {
		list = strings.Split(list[0], ",")
	}
	// The count alone decides, before the cost of parsing.
	if len(list) > initialTokensMax {
		return fmt.Errorf("%d tokens are more than %d", len(list), initialTokensMax)
	}
	for _, s := range list {
		// Murmur3 has negative tokens as well.
		n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a token of the Murmur3Partitioner, a whole number of 64 bits", s)
		}
		// No key has the minimum token.
		if ring.Token(n) == ring.MinToken {
			return fmt.Errorf("%d is the token of no key", n)
		}
		// A duplicate would leave fewer tokens than num_tokens.
		if slices.Contains(o.Join.Tokens, ring.Token(n)) {
			return fmt.Errorf("%d is listed twice", n)
		}
		o.Join.Tokens = append(o.Join.Tokens, ring.Token(n))
	}
	return nil
}

// checkInitialTokens compares initial_token with num_tokens, which defaults to the number of tokens. It runs after all
// options are read, because either may come first in the file.
func (o *Options) checkInitialTokens(file options) error {
	n := len(o.Join.Tokens)
	// An option that the file does not contain has the default, which says nothing about the list.
	switch _, set := file["num_tokens"]; {
	// The cluster chooses the tokens.
	case n == 0:
	case !set:
		// num_tokens follows the list, so an operator need not count it.
		o.Join.NumTokens = n
	case n != o.Join.NumTokens:
		return errors.New("initial_token: has " + strconv.Itoa(n) + " tokens, and num_tokens is " +
			strconv.Itoa(o.Join.NumTokens))
	}
	return nil
}
