package control

// Operations on roles and on from where they may connect.
var (
	// ResetSuperuser is local: only the socket accepts it.
	ResetSuperuser  = Operation[SuperuserArgs, Superuser]{Name: "reset-superuser", Changes: true}
	UpdateCIDRGroup = Operation[CIDRGroup, None]{Name: "updatecidrgroup", Changes: true}
	DropCIDRGroup   = Operation[CIDRGroupArgs, None]{Name: "dropcidrgroup", Changes: true}
	ListCIDRGroups  = Operation[CIDRGroupArgs, CIDRGroups]{Name: "listcidrgroups"}
	CIDRGroupsOfIP  = Operation[IPArgs, CIDRGroups]{Name: "getcidrgroupsofip"}
)

// SuperuserArgs name a superuser that gets a password. The node generates one if it is empty. The password is redacted
// in the audit log.
type SuperuserArgs struct {
	Role     string `json:"role"`
	Password string `json:"password,omitempty"`
}

// Superuser is a superuser with the password that the node generated for it; empty means that it generated none.
type Superuser struct {
	Role     string `json:"role"`
	Password string `json:"password,omitempty"`
}

// CIDRGroup is a CIDR group and its ranges, such as 192.0.2.0/24. As arguments, the ranges replace all present ones.
type CIDRGroup struct {
	Name  string   `json:"name"`
	CIDRs []string `json:"cidrs"`
}

// CIDRGroupArgs name a CIDR group. Some operations accept an empty name.
type CIDRGroupArgs struct {
	Name string `json:"name,omitempty"`
}

// IPArgs name an address.
type IPArgs struct {
	IP string `json:"ip"`
}

// CIDRGroups are CIDR groups, ascending by name.
type CIDRGroups struct {
	Groups []CIDRGroup `json:"groups"`
}
