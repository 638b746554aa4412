package control

import "cqld/audit"

// The operations of the audit log.
var (
	AuditLogOf  = Operation[None, audit.Settings]{Name: "getauditlog"}
	SetAuditLog = Operation[AuditArgs, audit.Settings]{Name: "setauditlog", Changes: true}
)

// AuditArgs enable the audit log with the given settings, or disable it. A nil field means the setting in the node's
// configuration.
type AuditArgs struct {
	Enable             bool      `json:"enable"`
	Logger             *string   `json:"logger,omitempty"`
	IncludedKeyspaces  *[]string `json:"included_keyspaces,omitempty"`
	ExcludedKeyspaces  *[]string `json:"excluded_keyspaces,omitempty"`
	IncludedCategories *[]string `json:"included_categories,omitempty"`
	ExcludedCategories *[]string `json:"excluded_categories,omitempty"`
	IncludedUsers      *[]string `json:"included_users,omitempty"`
	ExcludedUsers      *[]string `json:"excluded_users,omitempty"`
	IncludedRoles      *[]string `json:"included_roles,omitempty"`
	ExcludedRoles      *[]string `json:"excluded_roles,omitempty"`
	RollCycle          *string   `json:"roll_cycle,omitempty"`
	Block              *bool     `json:"block,omitempty"`
	MaxQueueWeight     *int64    `json:"max_queue_weight,omitempty"`
	MaxLogSize         *int64    `json:"max_log_size,omitempty"`
}
