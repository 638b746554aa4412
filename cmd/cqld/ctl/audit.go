package ctl

import (
	"fmt"
	"io"
	"strings"

	"cqld/audit"
	"cqld/node/control"
)

// enableAuditCommand has nodetool's options. Omitted options, and options with the zero value, have the values of the
// node's configuration. If the log is already enabled, an omitted option is therefore reset to its configured value.
type enableAuditCommand struct {
	Logger             string `help:"The logger: JSONAuditLogger. Cassandra's are accepted and replaced by it."`
	IncludedKeyspaces  string `name:"included-keyspaces" help:"Keyspaces to include, separated by commas."`
	ExcludedKeyspaces  string `name:"excluded-keyspaces" help:"Keyspaces to exclude, separated by commas."`
	IncludedCategories string `name:"included-categories" help:"Categories to include, separated by commas."`
	ExcludedCategories string `name:"excluded-categories" help:"Categories to exclude, separated by commas."`
	IncludedUsers      string `name:"included-users" help:"Users to include, separated by commas."`
	ExcludedUsers      string `name:"excluded-users" help:"Users to exclude, separated by commas."`
	IncludedRoles      string `name:"included-roles" help:"Roles whose users to include, separated by commas."`
	ExcludedRoles      string `name:"excluded-roles" help:"Roles whose users to exclude, separated by commas."`
	RollCycle          string `name:"roll-cycle" help:"How often to begin a new file: MINUTELY, HOURLY or DAILY."`
	Blocking           string `help:"Whether requests wait when the queue is full, instead of losing their entries: true or false."`
	MaxQueueWeight     int64  `name:"max-queue-weight" help:"Bytes of entries that may wait to be written."`
	MaxLogSize         int64  `name:"max-log-size" help:"Bytes of all files before the oldest are removed."`
	ArchiveCommand     string `name:"archive-command" help:"Not supported: no setting executes commands."`
	MaxArchiveRetries  int    `name:"max-archive-retries" help:"Has no effect."`
}

// Run enables the audit log.
func (c *enableAuditCommand) Run(s *session) error {
	// The control protocol has no such option, so it is refused here.
	if c.ArchiveCommand != "" {
		return fmt.Errorf("archive_command is not supported, because settings never execute commands: archive the " +
			"files by a job of the operating system")
	}
	a := control.AuditArgs{Enable: true, Logger: given(c.Logger), RollCycle: given(c.RollCycle),
		MaxQueueWeight: given(c.MaxQueueWeight),
		MaxLogSize:     given(c.MaxLogSize), IncludedKeyspaces: list(c.IncludedKeyspaces),
		ExcludedKeyspaces:  list(c.ExcludedKeyspaces),
		IncludedCategories: list(c.IncludedCategories), ExcludedCategories: list(c.ExcludedCategories),
		IncludedUsers: list(c.IncludedUsers),
		ExcludedUsers: list(c.ExcludedUsers), IncludedRoles: list(c.IncludedRoles),
		ExcludedRoles: list(c.ExcludedRoles)}
	// A string instead of a flag, so that an omitted option differs from false.
	switch strings.ToLower(c.Blocking) {
	case "":
	case "true", "false":
		block := strings.EqualFold(c.Blocking, "true")
		a.Block = &block
	default:
		return fmt.Errorf("--blocking=%s: use true or false", c.Blocking)
	}
	return ask(s, control.SetAuditLog, a, quiet[audit.Settings])
}

// given returns a pointer to an option's value, or nil for the zero value. The control protocol reads nil as the
// configured value.
func given[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// list returns the names of an option, or nil if it was not given.
func list(names string) *[]string {
	if names == "" {
		return nil
	}
	all := audit.ParseList(names)
	return &all
}

// disableAuditCommand has no options, and enableauditlog undoes it.
type disableAuditCommand struct{}

// Run disables the audit log. The zero arguments disable the log.
func (c *disableAuditCommand) Run(s *session) error {
	return ask(s, control.SetAuditLog, control.AuditArgs{}, quiet[audit.Settings])
}

// getAuditCommand prints the current options, which may differ from the configuration.
type getAuditCommand struct{}

// Run prints the options of the audit log.
func (c *getAuditCommand) Run(s *session) error {
	return ask(s, control.AuditLogOf, control.None{}, showAudit)
}

// showAudit prints the options as nodetool does, without those about archiving, and with those about roles. The order
// is nodetool's.
func showAudit(w io.Writer, s audit.Settings) error {
	// Lists are shown with commas, as the options take them.
	p := &printer{w: w}
	for _, o := range []struct {
		name  string
		value any
	}{{"enabled", s.Enabled}, {"logger", s.Logger}, {"audit_logs_dir", s.Dir}, {"roll_cycle", s.RollCycle},
		{"block", s.Block},
		{"max_log_size", s.MaxLogSize}, {"max_queue_weight", s.MaxQueueWeight},
		{"included_keyspaces", strings.Join(s.IncludedKeyspaces, ",")},
		{"excluded_keyspaces", strings.Join(s.ExcludedKeyspaces, ",")},
		{"included_categories", strings.Join(s.IncludedCategories, ",")},
		{"excluded_categories", strings.Join(s.ExcludedCategories, ",")},
		{"included_users", strings.Join(s.IncludedUsers, ",")}, {"excluded_users", strings.Join(s.ExcludedUsers, ",")},
		{"included_roles", strings.Join(s.IncludedRoles, ",")},
		{"excluded_roles", strings.Join(s.ExcludedRoles, ",")}} {
		p.line("%s", strings.TrimRight(fmt.Sprintf("%-19s %v", o.name, o.value), " "))
	}
	return p.err
}
