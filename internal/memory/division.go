package memory

import (
	"errors"
	"fmt"
	"strings"
)

// Part is a use of a node's memory with a separate bound.
type Part int

// The parts. Their bounds add up to the figure of the node.
const (
	// Kernel is the memory that the kernel charges to the node besides its own pages: the page cache that reads and
	// writes of files need, buffers of sockets, page tables and the program itself.
	Kernel Part = iota
	// Base is the memory of a node without clients: the runtime, stacks, the schema and roles, the metadata log, the
	// tables of open files.
	Base
	// Collector is the garbage that waits for the next collection, and free space inside of and between the spans of
	// the heap.
	Collector
	// BlockCache is block_cache_size.
	BlockCache
	// RowCache is point_read_cache_size.
	RowCache
	// MemTables are the memtables, and the mutations that wait for the committer.
	MemTables
	// Requests are the requests and replies of clients, from the first byte to the last.
	Requests
	// Writes are the mutations that coordinators keep until the replicas have answered.
	Writes
	// Pages are the first bytes of the pages that this replica reads for requests, which need no reservation. Bytes
	// beyond them belong to Requests.
	Pages
	// Internode are the frames that are received from other nodes, wait to be executed, or wait to be sent.
	Internode
	// Background are streams, hints, logged batches and repairs.
	Background
	// Backups are the files that are stored and read for backups and restorations, and the archived log.
	Backups
	// Graphs are the graphs of indexes of vectors.
	Graphs
	// Functions are the calls of user-defined functions.
	Functions
	// Parts is the number of parts.
	Parts
)

// String returns the name of the part for operators.
func (p Part) String() string {
	return [...]string{"kernel and page cache", "base", "collector", "block cache", "row cache", "memtables",
		"requests and replies", "writes in flight",
		"pages of replicas", "internode", "streams and hints", "backups", "vector graphs", "functions"}[p]
}

// Division divides the memory of a node. The sum of Part is at most Figure; Divide rounds down.
type Division struct {
	Figure int64
	Source string // what determines the figure
	Part   [Parts]int64
}

// mib is the unit of figures for people: sizes are rounded down to it when they are shown.
const mib = 1 << 20

// FigureMin is the smallest figure with which a node starts. It leaves 133 MiB for the parts that have weights.
const FigureMin = 256 * mib

const (
	// An eighth is for the kernel: files are read and written through the page cache, and with less than 32 MiB of it a
	// flush and a compaction at a time wait for the disk.
	kernelDivisor = 8
	kernelMin     = 32 * mib
	// An idle node of the release has 22 MiB of live heap and 26 MiB of stacks, metadata and idle spans.
	baseBytes = 48 * mib
	// A sixth is for the collector. A node of 1 GiB then collects each 112 MiB that it allocates, which takes a few
	// percent of its CPU time: a collection marks objects with pointers, and blocks of the cache have none. A third of
	// it is for the allocator: size classes waste an eighth at most, and the live heap is below two thirds of the
	// figure.
	collectorDivisor = 6
	collectorMax     = 4 << 30
	// memTableBytesMax is the default of memtable_heap_space; larger memtables do not make writes cheaper.
	memTableBytesMax = 16 * mib
	// memTableParts: four memtables wait for flushes, one is being written, and as much waits for the committer.
	memTableParts = 6
	graphBytesMax = 1 << 30 // of one graph by default
)

// share is the weight of a part, with its bounds, in the memory that Kernel, Base and Collector leave.
type share struct {
	part   Part
	weight int64 // of sharesTotal
	min    int64 // without it a node cannot serve one of the largest requests
	max    int64 // more has no use
}

// sharesTotal is the sum of the weights.
const sharesTotal = 102

// shares are the parts by weight, with requests of at most frame bytes; zero means the default. In a node of 1 GiB,
// which has 677 MiB for them, a weight of 1 is 6.6 MiB. The columns are part, weight, minimum and maximum.
func shares(frame int64) []share {
	return []share{
		{BlockCache, 18, 4 * mib, unlimited},
		{RowCache, 6, 1 * mib, 4 << 30},
		{MemTables, 10, 6 * mib, memTableParts * memTableBytesMax},
		{Requests, 31, max(32*mib, frameDivisor*frame), max(2<<30, frameDivisor*frame)},
		{Writes, 6, 4 * mib, 1 << 30},
		{Pages, 3, 4 * mib, workersMax * pageFree},
		{Internode, 10, 8 * mib, 2 << 30},
		{Background, 4, 4 * mib, 512 * mib},
		{Backups, 6, 16 * mib, 192 * mib},
		{Graphs, 4, 1 * mib, unlimited},
		{Functions, 4, 2 * mib, 1 << 30},
	}
}

// Figures are the bounds that the operator has set; zero means none. Requests bounds complete requests and replies, and
// Frame the largest request. They are the values of the configuration in bytes.
type Figures struct {
	BlockCache, MemTable, Requests, Frame, Graph int64
	// RowCache is the figure that is set, unless it is negative: zero means that there is no such cache.
	RowCache int64
}

// Divide divides a figure. Bounds that the operator has set replace shares, and the rest is divided by weight. Divide
// fails if the figure is too small for a node, or for what the operator has set. source is used in errors only.
func Divide(figure int64, source string, set Figures) (d Division, err error) {
	d.Figure, d.Source = figure, source
	if figure < FigureMin {
		return d, fmt.Errorf("memory_limit: a node needs at least %s, but %s leaves it %s", size(FigureMin), source,
			size(figure))
	}
	d.Part[Kernel] = max(figure/kernelDivisor, kernelMin)
	d.Part[Base] = baseBytes
	d.Part[Collector] = min(figure/collectorDivisor, collectorMax)
	rest := figure - d.Part[Kernel] - d.Part[Base] - d.Part[Collector]
	// Bounds of the operator count unchanged, even below the minimum of the share.
	fixed := map[Part]int64{}
	for part, n := range map[Part]int64{BlockCache: set.BlockCache, MemTables: memTableParts * set.MemTable,
		Requests: inFlightDivisor * set.Requests} {
		if n > 0 {
			fixed[part] = n
		}
	}
	if set.RowCache >= 0 {
		fixed[RowCache] = set.RowCache
	}
	if set.Requests > 0 {
		fixed[Requests] = max(fixed[Requests], frameDivisor*set.Frame)
	}
	if set.Graph > sharesOf(rest, Graphs) { // a smaller one leaves the share to several graphs
		fixed[Graphs] = set.Graph
		// The other parts divide what is left.
	}
	weights, needed := int64(0), int64(0)
	for _, s := range shares(set.Frame) {
		if n, ok := fixed[s.part]; ok {
			d.Part[s.part] = n
			rest -= n
			continue
		}
		weights, needed = weights+s.weight, needed+s.min
	}
	if rest < needed {
		return d, fmt.Errorf("memory_limit: %s of %s do not suffice for what is configured: %s; the other parts "+
			"need at least %s, and have %s",
			size(figure), source, configured(set), size(needed), size(max(rest, 0)))
	}
	d.divide(rest, shares(set.Frame), fixed)
	return d, nil
}

// divide gives each part that has no bound yet its share of rest. Parts below their minimum get it first, which leaves
// less to the others; then parts above their maximum get that, which leaves more, so that none is below its minimum
// again. At most one part is settled in each round, so the loop ends after as many rounds as there are parts.
func (d *Division) divide(rest int64, shares []share, done map[Part]int64) {
	for _, bounded := range []func(s share, n int64) int64{
		func(s share, n int64) int64 { return max(n, s.min) },
		func(s share, n int64) int64 { return min(n, s.max) },
	} {
		for changed := true; changed; {
			changed = false
			weights := int64(0)
			for _, s := range shares {
				if _, ok := done[s.part]; !ok {
					weights += s.weight
				}
			}
			for _, s := range shares {
				if _, ok := done[s.part]; ok {
					continue
				}
				// The division comes first, because the product could overflow with a large figure.
				n := rest / weights * s.weight
				d.Part[s.part] = bounded(s, n)
				if d.Part[s.part] != n {
					done[s.part], rest, changed = d.Part[s.part], rest-d.Part[s.part], true
					break
				}
			}
		}
	}
}

// sharesOf returns the share of a part if no other is set. It ignores minima: it is only compared with what the
// operator has set.
func sharesOf(rest int64, part Part) int64 {
	for _, s := range shares(0) {
		if s.part == part {
			return min(rest/sharesTotal*s.weight, s.max)
		}
	}
	return 0
}

// configured lists the bounds that the operator has set, by their names in cassandra.yaml.
func configured(f Figures) string {
	var all []string
	for _, o := range []struct {
		name  string
		bytes int64
	}{{"block_cache_size", f.BlockCache}, {"point_read_cache_size", f.RowCache}, {"memtable_heap_space", f.MemTable},
		{"native_transport_max_request_data_in_flight", f.Requests},
		{"native_transport_max_frame_size", f.Frame},
		{"vector_index_graph_size", f.Graph}} {
		if o.bytes > 0 {
			all = append(all, o.name+" "+size(o.bytes))
		}
	}
	if all == nil {
		return "nothing"
	}
	return strings.Join(all, ", ")
}

// size formats bytes.
func size(n int64) string { return fmt.Sprintf("%d MiB", n/mib) }

// MemTable returns the size of one memtable.
func (d *Division) MemTable() int64 { return d.Part[MemTables] / memTableParts }

// Graph returns the bound of one graph of vectors by default. Several indexes share the part.
func (d *Division) Graph() int64 { return min(d.Part[Graphs], graphBytesMax) }

// Requests are divided: half is for complete requests and replies, a quarter is the reserve from which one of them at a
// time may exceed that, an eighth is for CQL requests that arrive, and an eighth for bodies of Azure Tables requests
// that do.
const (
	inFlightDivisor  = 2
	reserveDivisor   = 4
	receivingDivisor = 8
	frameDivisor     = 8 // the reserve is for two copies of the largest request
	// FrameBytesMax is Cassandra's default of native_transport_max_frame_size.
	FrameBytesMax = 16 * mib
)

// Reserve returns how much one request at a time may hold in addition, and any request at most. It is Limits.Reserve of
// the pool of requests.
func (d *Division) Reserve() int64 { return d.Part[Requests] / reserveDivisor }

// InFlight returns the bound of complete requests and replies. It is Limits.Bytes of the same pool.
func (d *Division) InFlight() int64 { return d.Part[Requests] / inFlightDivisor }

// Receiving returns the bound of requests that arrive, for each of the two protocols. These requests are not complete,
// so they hold no account yet.
func (d *Division) Receiving() int64 { return d.Part[Requests] / receivingDivisor }

// TablesConnections returns how many connections of Azure Tables may be open if each has buffers of so many bytes: they
// use at most a quarter of the part for requests. buffers must be positive.
func (d *Division) TablesConnections(buffers int64) int { return int(d.Part[Requests] / 4 / buffers) }

// Frame returns the default of native_transport_max_frame_size. A request of this size fits into the reserve twice: as
// received, and decoded.
func (d *Division) Frame() int64 { return min(d.Part[Requests]/frameDivisor, FrameBytesMax) }

// pageFree is the memory that a worker uses for a page without a reservation.
const (
	pageFree   = 64 << 10
	workersMax = 256
)

// Workers returns how many reads of this replica run at once. Each has a page of pageFree bytes without asking.
func (d *Division) Workers() int { return int(min(d.Part[Pages]/pageFree, workersMax)) }

// BackgroundBlock bounds the bytes of logged batches, and of blocks of streams that wait: each is at most half of the
// part.
func (d *Division) BackgroundBlock() int64 { return d.Part[Background] / 2 }

// Backup bounds the bytes of backups, restorations and the archived log.
func (d *Division) Backup() int64 { return d.Part[Backups] }

// HeapLimit returns the limit for Go's runtime: all but the part of the kernel. The runtime does not see the memory
// that the kernel charges to the node.
func (d *Division) HeapLimit() int64 { return d.Figure - d.Part[Kernel] }

// Sum returns the sum of all parts. It differs from Figure by what was rounded, or by parts at their maximum.
func (d *Division) Sum() (sum int64) {
	for _, n := range d.Part {
		sum += n
	}
	return sum
}

// ErrUnknown means that the memory of the machine cannot be determined.
var ErrUnknown = errors.New("the memory of this machine cannot be determined: set memory_limit")
