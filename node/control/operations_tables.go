package control

// The operations on accounts of Azure Tables. Keys are in the results of those that generate them, and nowhere else.
var (
	TablesAccountsOf     = Operation[None, TablesAccounts]{Name: "tablesaccounts"}
	CreateTablesAccount  = Operation[TablesAccountArgs, TablesKeys]{Name: "createtablesaccount", Changes: true}
	RotateTablesKey      = Operation[TablesAccountArgs, TablesKeys]{Name: "rotatetableskey", Changes: true}
	SetTablesConsistency = Operation[TablesAccountArgs, None]{Name: "settablesconsistency", Changes: true}
	RemoveTablesAccount  = Operation[TablesAccountArgs, None]{Name: "removetablesaccount", Changes: true}
)

// TablesAccountArgs name an account. Role is the role of a new account. Key, 1 or 2, is the key to rotate, or, if
// Remove, to remove.
type TablesAccountArgs struct {
	Name   string `json:"name"`
	Role   string `json:"role,omitempty"`
	Key    int    `json:"key,omitempty"`
	Remove bool   `json:"remove,omitempty"`
	// Consistency is QUORUM or LOCAL_QUORUM; empty means the default of the nodes.
	Consistency string `json:"consistency,omitempty"`
}

// TablesAccount is an account, with which of its keys are set.
type TablesAccount struct {
	Name       string `json:"name"`
	Role       string `json:"role"` // empty means that its requests are anonymous
	Key1       bool   `json:"key1"`
	Key2       bool   `json:"key2"`
	Configured bool   `json:"configured,omitempty"` // by tables_accounts of the queried node
	Hidden     bool   `json:"hidden,omitempty"`     // by the cluster's account of this name
	// Consistency applies to the account's requests at the queried node.
	Consistency string `json:"consistency"`
}

// TablesAccounts are the accounts of the cluster and those of the queried node's configuration.
type TablesAccounts struct {
	Accounts []TablesAccount `json:"accounts"`
}

// TablesKeys are the keys of an account that were generated.
type TablesKeys struct {
	Name string `json:"name"`
	Key1 string `json:"key1,omitempty"`
	Key2 string `json:"key2,omitempty"`
}
