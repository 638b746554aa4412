package config

import (
	"errors"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"cqld/azuretables"
)

func TestFileSetsOptionsByTheirUsualNames(t *testing.T) {
	o := Default()
	err := o.parse("c.yaml", []byte(`
cluster_name: 'Test Cluster'
num_tokens: 8
listen_address: 127.0.0.2
storage_port: 7001
rpc_address: localhost
native_transport_port: 9043
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "127.0.0.1,127.0.0.2:7009"
        resolve_multiple_ip_addresses_per_dns_record: "true"
data_file_directories: [ /tmp/x ]
commitlog_sync: periodic
commitlog_sync_period: 10000ms
native_transport_max_frame_size: 16MiB
`))
	if err != nil {
		t.Fatal(err)
	}
	if o.ClusterName != "Test Cluster" || o.Join.NumTokens != 8 || o.CommitLog.Sync != SyncPeriodic ||
		o.CommitLog.SyncPeriod != 10*time.Second || o.Requests.MaxFrameBytes != 16<<20 || o.DataDir != "/tmp/x" {
		t.Errorf("got %+v", o)
	}
	if o.Internode() != netip.MustParseAddrPort("127.0.0.2:7001") ||
		o.Native() != netip.MustParseAddrPort("127.0.0.1:9043") {
		t.Errorf("addresses %s, %s", o.Internode(), o.Native())
	}
	if len(o.Join.Seeds) != 2 || o.Join.Seeds[0].String() != "127.0.0.1:7001" ||
		o.Join.Seeds[1].String() != "127.0.0.2:7009" {
		t.Errorf("seeds %v", o.Join.Seeds)
	}
	if err := o.Validate(); err != nil {
		t.Error(err)
	}
}

func TestBadFilesNameTheLine(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"a: 1\nclustername: x", "c.yaml:2: clustername: unknown option; did you mean cluster_name?"},
		{"hinted_handoff_enabled: false", "c.yaml:1: hinted_handoff_enabled: not supported: hints are always stored"},
		{"wholly_unknown_name: 1", "c.yaml:1: wholly_unknown_name: unknown option, in cqld and in Cassandra 3.11 to 6"},
		{"hinted_handof_throttle: 1", "c.yaml:1: hinted_handof_throttle: unknown option; did you mean " +
			"hinted_handoff_throttle?"},
		{"\nnum_tokens: many", `c.yaml:2: num_tokens: "many" is not a whole number`},
		{"num_tokens: 1\nnum_tokens: 2", "c.yaml:2: num_tokens: already set on line 1"},
		{"read_request_timeout: 5", `c.yaml:1: read_request_timeout: "5" is not a duration`},
		{"commitlog_sync: group", `c.yaml:1: commitlog_sync: "group" is neither batch nor periodic`},
		{"native_transport_max_frame_size: 16MB", `"16MB" is not a size`},
		{"storage_port: 70000", "not a port"},
		{"stream_throughput_outbound: 24MiB", `"24MiB" is not a rate`},
		{"auto_repair_enabled: yes", `"yes" is neither true nor false`},
		{"auto_snapshot: maybe", `"maybe" is neither true nor false`},
		{"auto_snapshot_ttl: 30", `"30" is not a duration`},
		{"listen_address: 300.1.1.1", `"300.1.1.1" is neither an IP address nor a host name`},
		{"seeds: [127.0.0.1, a:b]", `seed "a:b" is neither an address`},
		{"authenticator: LdapAuthenticator", `"LdapAuthenticator" is not supported; use AllowAllAuthenticator or PasswordAuthenticator`},
		{"seed_provider:\n- class_name: SimpleSeedProvider\n  parameter:\n  - seeds: 127.0.0.1",
			"seed_provider: parameter: unknown field; the fields are class_name and parameters"},
		{"seed_provider:\n- class_name: SimpleSeedProvider\n  parameters:\n  - seeds: 127.0.0.1\n    seed: 127.0.0.2",
			"seed_provider: seed: unknown field; the fields are seeds and resolve_multiple_"},
		{"seed_provider:\n- class_name: SimpleSeedProvider\n  parameters:\n  - {}\n  - {}",
			"expected one SimpleSeedProvider with one list of seeds"},
		{"backup_log_space: 8GB", `"8GB" is not a size`},
		{"- a", "c.yaml:1: expected lines"},
		{"a: [", "c.yaml: yaml: line 1"},
	} {
		o := Default()
		if err := o.parse("c.yaml", []byte(c.file)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.file, err, c.want)
		}
	}
}

// TestSnapshotOptions reads the options of automatic snapshots, which are on by default for a day, and off in
// development mode.
func TestSnapshotOptions(t *testing.T) {
	for file, want := range map[string]Snapshots{
		"":                     {Auto: true, TTL: 24 * time.Hour},
		"auto_snapshot: false": {TTL: 24 * time.Hour, autoSet: true},
		"development: true":    {TTL: 24 * time.Hour},
		"development: true\nauto_snapshot: true": {Auto: true, TTL: 24 * time.Hour,
			autoSet: true},
		"auto_snapshot_ttl: 30d":          {Auto: true, TTL: 30 * 24 * time.Hour},
		"auto_snapshot_ttl: 0s # forever": {Auto: true},
	} {
		o := Default()
		err := o.parse("c.yaml", []byte(file))
		if o.ApplyDevelopment(); errors.Join(err, o.Validate()) != nil || o.Snapshots != want {
			t.Errorf("%q: %+v, %v", file, o.Snapshots, err)
		}
	}
	o := Default()
	o.DropGrace = time.Millisecond
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "drop_grace: must lie between 1s and 30d") {
		t.Error(err)
	}
	o.DropGrace = 0
	o.Snapshots.TTL = time.Second
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "auto_snapshot_ttl: must be at least 1m") {
		t.Error(err)
	}
}

// TestArchiveOptions reads where the log is archived. A location with credentials is refused, and not repeated.
func TestArchiveOptions(t *testing.T) {
	o := Default()
	if o.CommitLog.Archive != "" || o.CommitLog.ArchiveSpace != 8<<30 {
		t.Errorf("by default: %+v", o.CommitLog)
	}
	err := o.parse("c.yaml", []byte("backup_log: s3://b/p?region=x\nbackup_log_space: 1GiB"))
	if err = errors.Join(err, o.Validate()); err != nil || o.CommitLog.Archive != "s3://b/p?region=x" ||
		o.CommitLog.ArchiveSpace != 1<<30 {
		t.Errorf("%+v, %v", o.CommitLog, err)
	}
	for file, want := range map[string]string{
		"backup_log: s3://user:secret@b":                            "backup_log: backup: the location contains cred",
		"backup_log: backups":                                       "backup_log: backup: the location is not a URL",
		"backup_log: file:///mnt/backups\nbackup_log_space: 255MiB": "backup_log_space: must be at least 256MiB",
	} {
		o := Default()
		err := errors.Join(o.parse("c.yaml", []byte(file)), o.Validate())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestTablesOptions(t *testing.T) {
	o := Default()
	if err := o.Validate(); err != nil || o.TablesListener().String() != "127.0.0.1:10002" ||
		len(o.Tables.Accounts) > 0 ||
		!o.Development() {
		t.Errorf("without options: %v, %s, %v", err, o.TablesListener(), o.Tables.Accounts)
	}
	err := o.parse("c.yaml", []byte(`
tables_port: 0
tables_accounts:
  - { name: races, key: "cmFjZXMgcmFjZXMgcmFjZXMh" }
  - name: training
    key: dHJhaW5pbmcgdHJhaW5pbmch
    role: trainer
tables_partition_target: 2000
tables_account_target: 20000
tables_max_properties: 500
tables_max_entity_size: 2MiB
tables_max_batch_operations: 200
tables_max_connections: 10
`))
	if err != nil || o.Validate() != nil || o.Tables.Port != 0 || len(o.Tables.Accounts) != 2 ||
		o.Tables.Accounts[1].Role != "trainer" || o.Development() || o.Tables.MaxEntityBytes != 2<<20 ||
		o.Tables.PartitionTarget != 2000 || o.Tables.AccountTarget != 20000 || o.Tables.MaxProperties != 500 ||
		o.Tables.MaxConnections != 10 {
		t.Errorf("%v, %+v", err, o)
	}
	for file, want := range map[string]string{
		"tables_accounts: races":               "expected a list of {name, key}",
		"tables_accounts: [ { name: races } ]": "expected {name, key}",
		"tables_accounts:\n- name: races\n  key: cmFjZXMgcmFjZXMgcmFjZXMh\n  rol: trainer": "" +
			"line 4: rol: unknown field",
		"tables_accounts: [ { nmae: races, key: cmFjZXMgcmFjZXMgcmFjZXMh } ]": "nmae: unknown field",
		"tables_accounts: [ { name: races, key: cmFjZXMgcmFjZXMgcmFjZXMh, Role: trainer, consistensy: one } ]": "" +
			"Role: unknown field",
		"tables_accounts: [ { name: Races, key: eHh4eA== } ]": "must consist of lower case letters " +
			"and digits",
		"tables_accounts: [ { name: races, key: eHh4eA== } ]":                  "must be base64 of at least 16 bytes",
		"tables_accounts: [ { name: system, key: cmFjZXMgcmFjZXMgcmFjZXMh } ]": "system keyspace",
		"tables_accounts: [ { name: abc, key: cmFjZXMgcmFjZXMgcmFjZXMh }, { name: abc, key: " +
			"cmFjZXMgcmFjZXMgcmFjZXMh } ]": "listed twice",
		"tables_port: 9042":           "is native_transport_port",
		"tables_port: many":           "not a port",
		"tables_partition_target: -1": "must not be negative",
		"authorizer: CassandraAuthorizer\ntables_accounts: [ { name: abc, key: cmFjZXMgcmFjZXMgcmFjZXMh } " +
			"]": "has no role",
		"rpc_address: 192.0.2.7\ntables_accounts: [ { name: abc, key: " +
			"Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw== } " +
			"]": "known to everyone",
	} {
		o := Default()
		err := o.parse("c.yaml", []byte(file))
		if err == nil {
			err = o.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
	for file, want := range map[string]bool{"": true, "rpc_address: 192.0.2.7": false,
		"authorizer: CassandraAuthorizer": false} {
		o := Default()
		if err := o.parse("c.yaml", []byte(file)); err != nil || o.Development() != want {
			t.Errorf("%q: %v; the development account is served: %v, want %v", file, err, o.Development(), want)
		}
	}
	o = Default()
	o.Listen.RPCAddress = netip.MustParseAddr("192.0.2.7")
	o.Tables.Accounts = []azuretables.Account{{Name: "races", Key: "cmFjZXMgcmFjZXMgcmFjZXMh"}}
	if err := o.Validate(); err == nil || strings.Contains(err.Error(), "known to everyone") {
		t.Errorf("an account with a key of its own: %v", err)
	}
}

// TestEveryOptionIsDocumented compares the options of the file with the tables of docs/CONFIGURATION.md.
func TestEveryOptionIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/CONFIGURATION.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{} // the default or, if only one value is valid, that value
	options := false                  // the table contains top-level options of the file
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) > 1 && strings.HasPrefix(strings.TrimSpace(cells[1]), "option") {
			options = strings.TrimSpace(cells[1]) == "option"
		}
		if !options || len(cells) < 4 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`") ||
			strings.HasPrefix(strings.TrimSpace(cells[1]), "`--") {
			continue
		}
		documented[strings.Trim(cells[1], " `")] = strings.TrimSpace(cells[2])
	}
	for name, set := range settings() {
		value, ok := documented[name]
		if !ok {
			t.Errorf("docs/CONFIGURATION.md does not have %s", name)
			continue
		}
		delete(documented, name)
		if !strings.HasPrefix(value, "`") || !strings.HasSuffix(value, "`") || strings.HasPrefix(name, "tables_max") {
			continue // the default is described in words, or is the Azure service's
		}
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(strings.Trim(value, "`")), &doc); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, want := Default(), Default()
		if err := set(&got, doc.Content[0]); err != nil {
			t.Errorf("%s: the documented default is refused: %v", name, err)
		}
		got.Logger, want.Logger, got.Listen.rpcSet, got.Snapshots.autoSet = nil, nil, false, false
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s is not the default", name, value)
		}
	}
	for name := range documented {
		t.Errorf("docs/CONFIGURATION.md has %s, which is no option", name)
	}
}
