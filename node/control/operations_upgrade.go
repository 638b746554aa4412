package control

// Operations on the cluster version.
var (
	UpgradeStatus   = Operation[None, Upgrade]{Name: "upgradestatus"}
	UpgradeFinalize = Operation[None, Upgrade]{Name: "upgradefinalize", Changes: true}
)

// Upgrade is the state of a rolling upgrade: the cluster version, and which nodes support which versions.
type Upgrade struct {
	ClusterVersion int `json:"cluster_version"`
	// Next is the newest version that all nodes support. It equals ClusterVersion if there is nothing to finalize.
	Next  int           `json:"next_version"`
	Nodes []UpgradeNode `json:"nodes"`
}

// UpgradeNode is the part of one node in an upgrade.
type UpgradeNode struct {
	Member
	Build string `json:"build,omitempty"` // empty: the node did not answer
	// The cluster versions that the node's record in the metadata states.
	Oldest int `json:"oldest_version"`
	Newest int `json:"newest_version"`
	// Waits says why the next version has to wait for the node. Empty means that it does not.
	Waits string `json:"waits,omitempty"`
}
