package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"cqld/audit"
)

// errArchive refuses archive_command. A setting that executes commands would let an operator of the control port, or
// a user who can change the configuration, run programs as the user of the process (CVE-2023-30601 in Cassandra).
// Cassandra runs archive_command for every file that is rolled.
var errArchive = errors.New("archive_command is not supported, because settings never execute commands: archive the " +
	"files of " +
	"audit_logs_dir by a job of the operating system")

// setAuditLogging reads audit_logging_options. All errors are reported together, each with its line. Options that are
// not in the group keep their defaults. reader.set reports a section that appears twice.
func setAuditLogging(o *Options, v *yaml.Node) error {
	if v.Kind != yaml.MappingNode {
		return errors.New("expected options of the form `name: value`")
	}
	// The group is no reader: its names exist only within it.
	seen := map[string]bool{}
	var errs []error
	for i := 0; i+1 < len(v.Content); i += 2 {
		name, value := v.Content[i], v.Content[i+1]
		// The option is set before the duplicate is found; the configuration is refused in any case.
		err := setAuditOption(o, name.Value, value)
		if seen[name.Value] {
			err = errors.New("already set")
		}
		seen[name.Value] = true
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %s: %w", name.Line, name.Value, err))
		}
	}
	return errors.Join(errs...)
}

// setAuditOption sets one option of the group. Unknown names are errors. They have the names of Cassandra's
// audit_logging_options. BinAuditLogger's are accepted and apply to the JSON lines of cqld's log.
func setAuditOption(o *Options, name string, v *yaml.Node) error {
	s := &o.Audit
	// Lists may be written as one text, so they are read before the scalar.
	if list := auditLists(s)[name]; list != nil {
		return setList(list, v)
	}
	// The logger has parameters and is therefore no scalar.
	if name == "logger" {
		return setAuditLogger(o, v)
	}
	value, err := scalar(v)
	// A null is an empty value.
	if err != nil && v.Tag != "!!null" {
		return err
	}
	switch name {
	case "enabled":
		s.Enabled, err = parseTruth(value)
	case "block":
		s.Block, err = parseTruth(value)
	case "audit_logs_dir":
		// An empty directory means the default (AuditSettings).
		s.Dir, err = value, nil
	// Validate knows the cycles; the setting only normalizes the case.
	case "roll_cycle":
		s.RollCycle, err = strings.ToUpper(value), nil
	case "max_queue_weight":
		s.MaxQueueWeight, err = parseBytes(value)
	case "max_log_size":
		s.MaxLogSize, err = parseBytes(value)
	case "archive_command":
		// The default of Cassandra's file is an empty command.
		if err = nil; strings.TrimSpace(value) != "" {
			err = errArchive
		}
	case "allow_nodetool_archive_command":
		// Only false is accepted, because the option lets operators set a command.
		if on, wrong := parseTruth(value); wrong != nil || on {
			err = errArchive
		}
	case "max_archive_retries": // has no effect without archive_command
		_, err = strconv.Atoi(value)
	default:
		err = errors.New("unknown option")
	}
	return err
}

// auditLists returns the options that are lists of names.
func auditLists(s *audit.Settings) map[string]*[]string {
	return map[string]*[]string{
		"included_keyspaces": &s.IncludedKeyspaces, "excluded_keyspaces": &s.ExcludedKeyspaces,
		"included_categories": &s.IncludedCategories, "excluded_categories": &s.ExcludedCategories,
		"included_users": &s.IncludedUsers, "excluded_users": &s.ExcludedUsers,
		"included_roles": &s.IncludedRoles, "excluded_roles": &s.ExcludedRoles,
	}
}

// setList reads names separated by commas, as in Cassandra, or a YAML list. An empty list, and null, mean no names.
func setList(list *[]string, v *yaml.Node) error {
	switch {
	// Names of a YAML list may contain commas.
	case v.Kind == yaml.SequenceNode:
		*list = nil
		for _, e := range v.Content {
			name, err := scalar(e)
			if err != nil {
				return err
			}
			*list = append(*list, name)
		}
		return nil
	case v.Kind == yaml.ScalarNode:
		*list = nil
		if v.Tag != "!!null" {
			*list = audit.ParseList(v.Value)
		}
		return nil
	}
	return errors.New("expected names separated by commas")
}

// setAuditLogger reads the logger: a class name, or Cassandra's form with class_name. Cassandra's file has a list of
// one map, as for other classes.
func setAuditLogger(o *Options, v *yaml.Node) error {
	// A list of one is unwrapped, any number of times.
	for v.Kind == yaml.SequenceNode && len(v.Content) == 1 {
		v = v.Content[0]
	}
	if v.Kind == yaml.MappingNode {
		// class_name must be first; parameters have no meaning here and are ignored.
		if len(v.Content) < 2 || v.Content[0].Value != "class_name" {
			return errors.New("expected class_name")
		}
		v = v.Content[1]
	}
	class, err := scalar(v)
	if err != nil {
		return err
	}
	name, note, err := audit.ParseLogger(class)
	if err != nil {
		return err
	}
	// The class is accepted, but does not do what it does in Cassandra.
	if note != "" {
		o.Warnings = append(o.Warnings, "audit_logging_options: "+note)
	}
	o.Audit.Logger = name
	return nil
}

// parseTruth parses true and false, in any case.
func parseTruth(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", s)
}

// parseBytes parses a number of bytes, with or without a unit. Cassandra 5 writes some sizes as numbers, some with a
// unit. A number without a unit is in bytes.
func parseBytes(s string) (int64, error) {
	// Validate refuses negative numbers.
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, nil
	}
	return ParseSize(s)
}

// AuditSettings returns the settings with the default directory. The data directory is known only when all options are
// set. It may be called before and after Validate; the result is a copy whose lists are shared.
func (o *Options) AuditSettings() audit.Settings {
	s := o.Audit
	if s.Dir == "" {
		s.Dir = filepath.Join(o.DataDir, "audit")
	}
	return s
}
