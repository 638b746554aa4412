package config

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/ring"
)

// stockFiles returns, for each version of Cassandra, the options that its cassandra.yaml sets, with their values.
func stockFiles(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("testdata/cassandra-*.yaml")
	if err != nil || len(paths) != 5 {
		t.Fatal(paths, err)
	}
	files := map[string]string{}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		files[p] = string(b)
	}
	return files
}

// TestStockFilesOfCassandraAreAccepted reads the options of cassandra.yaml as versions 3.11 to 6 ship it, from files
// that others may read: they are valid, and one warning names the options without effect.
func TestStockFilesOfCassandraAreAccepted(t *testing.T) {
	for name, text := range stockFiles(t) {
		path := filepath.Join(t.TempDir(), "cassandra.yaml")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		o := Default()
		if err := o.LoadFile(path); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := o.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if o.ClusterName != "Test Cluster" || o.CommitLog.Sync != SyncPeriodic || o.Timeouts.Read != 5*time.Second ||
			o.Requests.BatchFailBytes != 50<<10 {
			t.Errorf("%s: %+v", name, o)
		}
		var about []string
		for _, w := range o.Warnings {
			if strings.Contains(w, "without effect") {
				about = append(about, w)
			}
		}
		if len(about) != 1 || !strings.Contains(about[0], "concurrent_reads") ||
			!strings.Contains(about[0], "cdc_enabled") ||
			strings.Contains(about[0], "cluster_name") || strings.Contains(about[0], "auto_snapshot") {
			t.Errorf("%s: warnings %q", name, about)
		}
	}
}

// TestPromisesOfCassandraAreRefused sets every option that promises something that cqld does not do.
func TestPromisesOfCassandraAreRefused(t *testing.T) {
	for name, p := range promisedOptions() {
		set := false
		for _, value := range []string{"true", "false", "7", "x.Unknown", "{enabled: true}", "[dc1]"} {
			o := Default()
			err := o.parse("c.yaml", []byte(name+": "+value))
			if err == nil {
				continue
			}
			set = true
			if !strings.HasPrefix(err.Error(), "c.yaml:1: "+name+": not supported: "+p.reason) {
				t.Errorf("%s: %s: %v", name, value, err)
			}
		}
		if !set {
			t.Errorf("%s: no value is refused", name)
		}
		o := Default()
		if err := o.parse("c.yaml", []byte(name+":")); err != nil {
			t.Errorf("%s without a value: %v", name, err)
		}
	}
}

// TestRefusedOptionsAreDocumented compares the options that are refused with docs/CONFIGURATION.md.
func TestRefusedOptionsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/CONFIGURATION.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range promisedOptions() {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/CONFIGURATION.md does not have %s", name)
		}
	}
	for old, r := range renamedOptions() {
		if r.name+"_in_ms" != old && !strings.Contains(string(text), "`"+old+"`") {
			t.Errorf("docs/CONFIGURATION.md does not have %s", old)
		}
	}
}

// TestEachOptionHasOneMeaning compares the tables of options: no option is in two of them, and new names exist.
func TestEachOptionHasOneMeaning(t *testing.T) {
	known := settings()
	seen := map[string]string{}
	for table, names := range map[string][]string{"settings": slices.Collect(maps.Keys(known)),
		"renamed":  slices.Collect(maps.Keys(renamedOptions())),
		"promised": slices.Collect(maps.Keys(promisedOptions())), "inert": strings.Fields(inertNames)} {
		for _, name := range names {
			if seen[name] != "" {
				t.Errorf("%s is in %s and in %s", name, seen[name], table)
			}
			seen[name] = table
		}
	}
	for old, r := range renamedOptions() {
		if known[r.name] == nil {
			t.Errorf("%s has the new name %s, which is no option", old, r.name)
		}
	}
}

// TestRenamedOptions sets each renamed option under both names: the options are equal afterwards. Setting both is an
// error.
func TestRenamedOptions(t *testing.T) {
	for _, c := range [][2]string{
		{"read_request_timeout_in_ms: 7000", "read_request_timeout: 7s"},
		{"commitlog_sync_period_in_ms: 10", "commitlog_sync_period: 10ms"},
		{"batch_size_fail_threshold_in_kb: 70", "batch_size_fail_threshold: 70KiB"},
		{"native_transport_max_frame_size_in_mb: 32", "native_transport_max_frame_size: 32MiB"},
		{"stream_throughput_outbound_megabits_per_sec: 200", "stream_throughput_outbound: 25000000B/s"},
		{"native_transport_max_concurrent_requests_in_bytes: 99999999",
			"native_transport_max_request_data_in_flight: 99999999B"},
		{"native_transport_max_concurrent_requests_in_bytes_per_ip: -1",
			"native_transport_max_request_data_in_flight_per_ip: 0B"},
		{"enable_user_defined_functions: false", "user_defined_functions_enabled: false"},
		{"enable_materialized_views: false", "materialized_views_enabled: false"},
		{"keyspace_count_warn_threshold: 40", "keyspaces_warn_threshold: 40"},
	} {
		before, after := Default(), Default()
		if err := before.parse("c.yaml", []byte(c[0])); err != nil {
			t.Fatal(err)
		}
		if err := after.parse("c.yaml", []byte(c[1])); err != nil {
			t.Fatal(err)
		}
		oldName, _, _ := strings.Cut(c[0], ":")
		newName, _, _ := strings.Cut(c[1], ":")
		if len(before.Warnings) != 1 || !strings.Contains(before.Warnings[0], oldName+" ("+newName+")") {
			t.Errorf("%s: warnings %q", c[0], before.Warnings)
		}
		before.Warnings = nil
		if b, a := before.Settings(), after.Settings(); !maps.Equal(b, a) ||
			before.ViewsDisabled != after.ViewsDisabled {
			t.Errorf("%s and %s differ", c[0], c[1])
		}
		o := Default()
		if err := o.parse("c.yaml", []byte(c[0]+"\n"+c[1])); err == nil ||
			!strings.Contains(err.Error(), "c.yaml:2: "+newName+": already set on line 1") {
			t.Errorf("both names: %v", err)
		}
	}
	o := Default()
	if err := o.parse("c.yaml", []byte("read_request_timeout_in_ms: 5s")); err == nil ||
		!strings.Contains(err.Error(), "its new name is read_request_timeout") {
		t.Errorf("a bad value: %v", err)
	}
}

func TestInitialTokens(t *testing.T) {
	for _, c := range []struct {
		file   string
		tokens []ring.Token
		number int
		want   string
	}{
		{"initial_token:", nil, 16, ""},
		{"initial_token: -5", []ring.Token{-5}, 1, ""},
		{"initial_token: 3, -9223372036854775807\nnum_tokens: 2", []ring.Token{3, -9223372036854775807}, 2, ""},
		{"initial_token: [3, 4]", []ring.Token{3, 4}, 2, ""},
		{"num_tokens: 3\ninitial_token: 3,4", nil, 0, "has 2 tokens, and num_tokens is 3"},
		{"initial_token: 3,3", nil, 0, "3 is listed twice"},
		{"initial_token: 0x3", nil, 0, "is not a token"},
		{"initial_token: -9223372036854775808", nil, 0, "is the token of no key"},
		{"initial_token: " + strings.Repeat("1,", 1024) + "1", nil, 0, "are more than 1024"},
	} {
		o := Default()
		err := o.parse("c.yaml", []byte(c.file))
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%.40s: %v, want %q", c.file, err, c.want)
			}
			continue
		}
		if err != nil || !slices.Equal(o.Join.Tokens, c.tokens) || o.Join.NumTokens != c.number {
			t.Errorf("%s: %v, %v, %d tokens", c.file, err, o.Join.Tokens, o.Join.NumTokens)
		}
	}
}
