package control

// Operations on the builds of indexes and materialized views.
var (
	RebuildIndex       = Operation[IndexArgs, None]{Name: "rebuild_index", Changes: true}
	ViewBuildOf        = Operation[TableArgs, ViewBuild]{Name: "viewbuildstatus"}
	BuildThroughputOf  = Operation[None, Throughput]{Name: "getindexbuildthroughput"}
	SetBuildThroughput = Operation[Throughput, Throughput]{Name: "setindexbuildthroughput", Changes: true}
)

// IndexArgs name indexes of a table.
type IndexArgs struct {
	TableArgs
	Indexes []string `json:"indexes"`
}

// ViewBuild is the state of the build of a view, which Table names, on each node.
type ViewBuild struct {
	TableArgs
	Hosts []HostStatus `json:"hosts"`
}

// HostStatus is the state of something on a node.
type HostStatus struct {
	Address string `json:"address"`
	Status  string `json:"status"` // STARTED, SUCCESS, UNKNOWN
}

// IndexBuild is a build in progress.
type IndexBuild struct {
	ID     string `json:"id"` // of its job
	Kind   string `json:"kind"`
	Target string `json:"target"`
	Done   int64  `json:"done"`
	Total  int64  `json:"total"` // 0 means unknown
	Unit   string `json:"unit"`
}

// Throughput is a rate. 0 means no bound.
type Throughput struct {
	BytesPerSecond int64 `json:"bytes_per_second"`
}
