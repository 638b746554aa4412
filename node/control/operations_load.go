package control

// RangesOf shows the load of the nodes and of the physical partitions: the token ranges of the ring with their
// replicas. It is the view of the queried node, which has the reports of the others.
var RangesOf = Operation[RangesArgs, RangeLoads]{Name: "ranges"}

// The orders of RangesArgs.Sort.
const (
	SortLoad  = "load"  // the most charge first
	SortBytes = "bytes" // the largest first
	SortToken = "token" // by the end of the range
)

// RangesArgs select the ranges that are shown.
type RangesArgs struct {
	Sort  string `json:"sort,omitempty"`  // SortLoad if empty
	Limit int    `json:"limit,omitempty"` // of Ranges; 0 means all
}

// RangeLoads are the loads of nodes and ranges. Rates are per second. They are averages over about 10 s; fields whose
// names end in Slow are averages over about 2 min. A charge of 1 is the work of a point read of 1 KiB on one replica.
type RangeLoads struct {
	Nodes []NodeLoad `json:"nodes"`
	// Ranges are the selected ones of All ranges that are known. The rates are sums over the replicas.
	Ranges []RangeLoad `json:"ranges"`
	All    int         `json:"all"`
}

// NodeLoad is the load of one node. All fields but Member are zero if the node has not reported recently.
type NodeLoad struct {
	Member     Member  `json:"member"`
	Reported   bool    `json:"reported"`
	Ranges     int     `json:"ranges"` // that it holds
	Bytes      int64   `json:"bytes"`  // on disk, of tables
	Reads      float64 `json:"reads"`
	Writes     float64 `json:"writes"`
	BytesOut   float64 `json:"bytes_out"`
	BytesIn    float64 `json:"bytes_in"`
	Charge     float64 `json:"charge"`
	ChargeSlow float64 `json:"charge_slow"`
	Share      float64 `json:"share"`       // of the charge of all nodes
	BytesShare float64 `json:"bytes_share"` // of the bytes of all nodes
	CPU        float64 `json:"cpu"`         // 1 is one core
	DiskFree   int64   `json:"disk_free"`   // 0: unknown
	DiskTotal  int64   `json:"disk_total"`
}

// RangeLoad is the load of the tokens in (Start, End]. Start is not smaller than End for the range that wraps around.
type RangeLoad struct {
	Start      int64    `json:"start_token"`
	End        int64    `json:"end_token"`
	Nodes      []string `json:"nodes"` // the addresses of the nodes that report it
	Bytes      int64    `json:"bytes"` // of the largest replica
	Reads      float64  `json:"reads"`
	Writes     float64  `json:"writes"`
	Charge     float64  `json:"charge"`
	ChargeSlow float64  `json:"charge_slow"`
	Share      float64  `json:"share"`             // of the charge of all nodes
	Busiest    string   `json:"busiest"`           // the node with the most charge of the range
	Hottest    *HotKey  `json:"hottest,omitempty"` // nil: no key stands out
}

// HotKey is the partition key that causes the most charge of a range on one node.
type HotKey struct {
	Keyspace string  `json:"keyspace"`
	Table    string  `json:"table"`
	Token    int64   `json:"token"`
	Key      string  `json:"key,omitempty"` // empty: the queried node does not know it
	Share    float64 `json:"share"`         // of the charge of the range on that node
}
