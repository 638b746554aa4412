package control

// BalanceOf shows how far nodes are from their shares of the load, and the steps that would even it out. It changes
// nothing.
var BalanceOf = Operation[struct{}, BalancePlan]{Name: "balance"}

// BalancePlan is what the planner of the queried node would do.
type BalancePlan struct {
	Shares []BalanceShare `json:"shares"`
	Steps  []BalanceStep  `json:"steps"`
	// Rejected are some of the candidates that are not steps.
	Rejected []BalanceRejection `json:"rejected"`
}

// BalanceShare is the load of a node beside the load that it should have. A charge is per second, averaged over 2 min.
type BalanceShare struct {
	Node      string  `json:"node"`
	Tokens    int     `json:"tokens"`
	Charge    float64 `json:"charge"`
	Want      float64 `json:"want_charge"`
	Bytes     int64   `json:"bytes"`
	WantBytes int64   `json:"want_bytes"`
	Excess    float64 `json:"excess"` // the greater of both, as a part of the share; negative if the node is below both
}

// BalanceTransfer gives a token to a node. From is empty for a new token, which divides a range.
type BalanceTransfer struct {
	Token int64  `json:"token"`
	From  string `json:"from,omitempty"`
	To    string `json:"to"`
}

// BalanceStep is a proposed transfer with what it is expected to change.
type BalanceStep struct {
	BalanceTransfer
	Reason  string          `json:"reason"`
	Bytes   int64           `json:"bytes"` // that nodes receive
	Changes []BalanceChange `json:"changes"`
}

// BalanceChange is what a step adds to a node.
type BalanceChange struct {
	Node   string  `json:"node"`
	Charge float64 `json:"charge"`
	Bytes  int64   `json:"bytes"`
	Ranges int     `json:"ranges"`
}

// BalanceRejection is a candidate that is not a step. Transfer is nil if the reason concerns the whole plan.
type BalanceRejection struct {
	Transfer *BalanceTransfer `json:"transfer,omitempty"`
	Reason   string           `json:"reason"`
}
