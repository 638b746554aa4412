package config

import (
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"cqld/audit"
)

// TestAuditOptions checks the forms of cassandra.yaml.
func TestAuditOptions(t *testing.T) {
	file := `audit_logging_options:
  enabled: true
  logger:
    - class_name: BinAuditLogger
  audit_logs_dir: /var/log/audit
  included_keyspaces: a, b
  excluded_categories: [PREPARE, query]
  included_roles: ops
  roll_cycle: daily
  block: false
  max_queue_weight: 1048576
  max_log_size: 1GiB
  archive_command:
  max_archive_retries: 10
  allow_nodetool_archive_command: false
`
	o := Default()
	if err := o.parse("c.yaml", []byte(file)); err != nil {
		t.Fatal(err)
	}
	want := audit.Settings{Enabled: true, Logger: audit.LoggerName, Dir: "/var/log/audit",
		IncludedKeyspaces: []string{"a", "b"},
		ExcludedKeyspaces: audit.DefaultSettings().ExcludedKeyspaces, ExcludedCategories: []string{"PREPARE", "query"},
		IncludedRoles: []string{"ops"}, RollCycle: "DAILY", MaxQueueWeight: 1 << 20, MaxLogSize: 1 << 30}
	if !reflect.DeepEqual(o.Audit, want) {
		t.Errorf("%+v", o.Audit)
	}
	if len(o.Warnings) != 1 || !strings.Contains(o.Warnings[0], "BinAuditLogger is not available") {
		t.Errorf("%q", o.Warnings)
	}
	for file, want := range map[string]string{
		"archive_command: /bin/sh %path":       "settings never execute commands",
		"allow_nodetool_archive_command: true": "settings never execute commands",
		"block: maybe":                         `"maybe" is neither true nor false`,
		"logger: Nix":                          `the logger "Nix" is unknown`,
		"nonsense: 1":                          "line 2: nonsense: unknown option",
		"block: true\n  block: true":           "line 3: block: already set",
		"max_log_size: much":                   `"much" is not a size`,
	} {
		o := Default()
		if err := o.parse("c.yaml", []byte("audit_logging_options:\n  "+file)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
	o = Default()
	if o.Audit.RollCycle = "WEEKLY"; o.Validate() == nil {
		t.Error("an invalid roll cycle is accepted")
	}
}

// FuzzAuditOptions parses malformed audit_logging_options and, from the same text, lists of names. Accepted options are
// valid, or Validate returns an error.
func FuzzAuditOptions(f *testing.F) {
	for _, s := range []string{"{enabled: true}", "{logger: [ {class_name: BinAuditLogger} ]}",
		"{included_users: 'a, b'}", "{excluded_keyspaces: [a, {b: c}]}",
		"{max_log_size: -1}", "{max_queue_weight: 99999999999999999999GiB}", "{roll_cycle: \"\\0\"}", "[]",
		"{audit_logs_dir: null}", "{? {a: b} : c}", "&a [*a]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var document yaml.Node
		if yaml.Unmarshal([]byte(text), &document) != nil || len(document.Content) == 0 {
			return
		}
		o := Default()
		if err := setAuditLogging(&o, document.Content[0]); err == nil {
			if err := o.Audit.Validate(); err != nil && err.Error() == "" {
				t.Error("an error without a text")
			}
		}
	})
}
