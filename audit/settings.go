package audit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Settings are Cassandra's audit_logging_options. Empty lists do not restrict. The names in JSON equal those of
// cassandra.yaml. Enable takes a copy; Validate states which values are valid.
type Settings struct {
	Enabled bool `json:"enabled"`
	// Logger is always LoggerName (ParseLogger).
	Logger string `json:"logger"`
	// Dir is the directory of the files. It is created if it does not exist.
	Dir string `json:"audit_logs_dir"`

	// Exclusion takes precedence over inclusion (pair). An entry without a keyspace passes only if none is included.
	IncludedKeyspaces  []string `json:"included_keyspaces,omitempty"`
	ExcludedKeyspaces  []string `json:"excluded_keyspaces,omitempty"`
	IncludedCategories []string `json:"included_categories,omitempty"`
	ExcludedCategories []string `json:"excluded_categories,omitempty"`
	IncludedUsers      []string `json:"included_users,omitempty"`
	ExcludedUsers      []string `json:"excluded_users,omitempty"`
	// IncludedRoles and ExcludedRoles concern users that have one of the roles, directly or through another role. They
	// are an extension of Cassandra's options.
	IncludedRoles []string `json:"included_roles,omitempty"`
	ExcludedRoles []string `json:"excluded_roles,omitempty"`

	// RollCycle is how often a file ends: MINUTELY, HOURLY or DAILY. A file also ends when it has its full size.
	RollCycle string `json:"roll_cycle"`
	// Block makes requests wait while the queue is full. Otherwise their entries are dropped.
	Block bool `json:"block"`
	// MaxQueueWeight bounds the queue, in bytes of encoded entries.
	MaxQueueWeight int64 `json:"max_queue_weight"`
	// MaxLogSize bounds all files together, in bytes.
	MaxLogSize int64 `json:"max_log_size"`
}

// LoggerName is the name of the only logger, which writes JSON lines.
const LoggerName = "JSONAuditLogger"

// DefaultSettings returns Cassandra's defaults, except for max_queue_weight. Enabled is false and Dir is empty: the
// configuration sets them.
func DefaultSettings() Settings {
	return Settings{
		Logger:            LoggerName,
		ExcludedKeyspaces: []string{"system", "system_schema", "system_virtual_schema"},
		RollCycle:         "HOURLY",
		Block:             true,
		MaxQueueWeight:    queueBytesDefault,
		MaxLogSize:        logBytesDefault,
	}
}

// ParseLogger returns the logger for a class name. Cassandra's two loggers are accepted and replaced, with a note for
// the operator; "" means the default.
func ParseLogger(class string) (name, note string, err error) {
	switch short := strings.TrimPrefix(class, "org.apache.cassandra.audit."); short {
	// A class without package is in Cassandra's package of loggers.
	case "", LoggerName:
		return LoggerName, "", nil
	// Configurations of Cassandra remain usable.
	case "BinAuditLogger", "FileAuditLogger":
		return LoggerName, fmt.Sprintf("the audit log is written as JSON lines by %s: %s is not available", LoggerName,
			short), nil
	default:
		return "", "", fmt.Errorf("the logger %q is unknown: use %s", class, LoggerName)
	}
}

// ParseList returns the elements of a list separated by commas. Spaces around elements and empty elements are ignored.
// The result is nil if there are none.
func ParseList(text string) (list []string) {
	for _, element := range strings.Split(text, ",") {
		if element = strings.TrimSpace(element); element != "" {
			list = append(list, element)
		}
	}
	return list
}

// rollCycle returns the interval of rotation. Chronicle's names with the prefix FAST_, which Cassandra accepts, mean
// the same intervals.
func rollCycle(name string) (time.Duration, bool) {
	// Names are accepted in any case.
	switch strings.TrimPrefix(strings.ToUpper(name), "FAST_") {
	case "MINUTELY":
		return time.Minute, true
	case "HOURLY":
		return time.Hour, true
	case "DAILY":
		return 24 * time.Hour, true
	}
	return 0, false
}

// Validate returns an error that names all invalid options. Names of keyspaces, users and roles are not validated: they
// may be created later.
func (s *Settings) Validate() error {
	var errs []error
	if _, ok := rollCycle(s.RollCycle); !ok {
		errs = append(errs, fmt.Errorf("roll_cycle: %q is not MINUTELY, HOURLY or DAILY", s.RollCycle))
	}
	for _, list := range []struct {
		name       string
		categories []string
	}{{"included_categories", s.IncludedCategories}, {"excluded_categories", s.ExcludedCategories}} {
		for _, name := range list.categories {
			if _, ok := parseCategory(name); !ok {
				errs = append(errs, fmt.Errorf("%s: %q is not one of %v", list.name, name, Categories()))
			}
		}
	}
	if s.MaxQueueWeight < 1 {
		errs = append(errs, errors.New("max_queue_weight: must be positive"))
	}
	if s.MaxLogSize < logBytesMin {
		errs = append(errs, fmt.Errorf("max_log_size: must be at least %d bytes", logBytesMin))
	}
	// A log that is off needs no directory.
	if s.Enabled && s.Dir == "" {
		errs = append(errs, errors.New("audit_logs_dir: must not be empty"))
	}
	return errors.Join(errs...)
}

// clone returns a copy that shares no memory with s.
func (s Settings) clone() Settings {
	// s is a copy already; only its lists are shared with the original.
	for _, list := range []*[]string{&s.IncludedKeyspaces, &s.ExcludedKeyspaces, &s.IncludedCategories,
		&s.ExcludedCategories,
		&s.IncludedUsers, &s.ExcludedUsers, &s.IncludedRoles, &s.ExcludedRoles} {
		*list = slices.Clone(*list)
	}
	return s
}
