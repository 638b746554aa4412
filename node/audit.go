package node

import (
	"fmt"

	"cqld/audit"
)

// openAudit creates the audit log, and enables it if the configuration says so. The log exists even if it is disabled,
// because operators may enable it later. An invalid setting prevents the start.
func (n *Node) openAudit() error {
	// The log has the goroutines of the node: Close waits for its writer, which writes what is queued before it ends.
	s := n.opts.AuditSettings()
	n.audit = audit.New(audit.Options{Host: n.opts.Internode().String(), Now: n.clock.Now, Logger: n.log,
		Go: n.running.Go, RolesOf: func(user string) []string {
			if n.cluster == nil { // nothing is served yet
				return nil
			}
			return n.cluster.Metadata().Roles.RolesOf(user)
		}}, s)
	// Operators who enable the log later start from the same settings of the configuration (admin.Audit).
	if !s.Enabled {
		return nil
	}
	if err := n.audit.Enable(s); err != nil {
		return fmt.Errorf("node: audit_logging_options: %w", err)
	}
	n.log.Info("the audit log is enabled", "directory", s.Dir)
	return nil
}
