package simulation

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"cqld/coordinator"
	"cqld/hints"
	"cqld/simulation/damage"
	"cqld/simulation/kernel"
	"cqld/storage"
)

// Options configure a run. The seed determines everything else. DefaultOptions and DrawnOptions are the two sets that
// seeds are tested with; a test of one effect sets the fields itself. A field with a zero value has no effect, unless
// its comment says otherwise.
type Options struct {
	// Seed determines all random numbers of the run. Runs of one seed with different options are not related.
	Seed uint64
	// Nodes is the number of machines that join before the faults begin.
	Nodes int
	// Factor is the number of replicas of every partition, over all data centers.
	Factor int
	// Datacenters contains the replication factor of each data center (dc1, dc2 and so on); empty means one data
	// center, and SimpleStrategy. Their sum is Factor.
	Datacenters []int
	// Far is the additional delay of a message between data centers.
	Far time.Duration
	// NodesMost bounds the members of the ring; zero means 6, or Nodes if that is more.
	NodesMost int
	// Tokens is the number of tokens of each node.
	Tokens int
	// Clients and Keys are for workloads that do not fix the numbers of their clients and keys.
	Clients int
	Keys    int
	// Registers is the number of rows that the workload cas changes, two in each partition; zero means at most three.
	Registers int
	// Turns bounds the steps of each client, in addition to the end of the faults.
	Turns int
	// Faults is before TimeScale. It begins after the tables were created.
	Faults time.Duration // how long the nemesis is active

	// Workloads contains names of workloadKinds and of Extra, FaultKinds names of faultKinds. An unknown workload is a
	// failure of the run; an unknown kind of fault never strikes.
	Workloads  []string
	FaultKinds []string // names of faultKinds
	// OnlyFaults contains the numbers of the plan that strike. nil means all, and an empty list none.
	OnlyFaults []int

	// The following options are drawn from the seed, so that some runs execute rare code paths often.
	//
	// PageBytes bounds a page of storage, in bytes; 0 means the default.
	PageBytes int
	// FilterRows is how many rows a page of a filtered read may omit.
	FilterRows int
	// SpeculativeRetry is the option speculative_retry of all tables.
	SpeculativeRetry string
	// Limits bounds the requests of each coordinator; zero fields mean the defaults, except TruncationMost
	// (process.go).
	Limits coordinator.Limits
	// HintLimits bounds the hints of each node; zero fields mean the defaults.
	HintLimits hints.Limits
	// NoHints makes all nodes refuse hints, as an operator can.
	NoHints bool
	// Levels makes conditional changes commit at levels that are drawn for each change, instead of QUORUM.
	Levels bool
	// SlowStreams makes streams use small blocks and take seconds, so that other events coincide with them.
	SlowStreams bool
	// LateTruncates delays some truncation requests for much longer than their coordinator waits.
	LateTruncates bool
	// LoggedRows makes the workload reborn write its rows in logged batches.
	LoggedRows bool
	// ConvergeBy is the mechanism that must make replicas equal before any client reads them in the healed cluster:
	// ByReads (the default), ByHints or ByRepair.
	ConvergeBy string
	// Hurry multiplies the frequency of faults; zero means 1.
	Hurry int
	// Meet counts operations that are in progress at the same time (meetings.go).
	Meet bool
	damage.Disks
	// Points contains names of points: rare code paths to be executed always.
	Points []string
	// Made is called with a new cluster, before any of its nodes starts; nil means no call.
	Made func(*Cluster)
	// Extra contains the workloads of a test, which run in addition to those of workloadKinds.
	Extra []workloadKind
	// PaxosMargin is the minimum age of purged Paxos state; a negative value includes state of the near future. Zero
	// means longer than a run.
	PaxosMargin time.Duration

	// TimeScale multiplies all durations of faults and of the clients' pauses, and Pace the interval of the cluster's
	// heartbeats: with both, weeks are simulated in minutes. Zero means 1.
	TimeScale, Pace int

	// BuildRows is how many rows a step of the build of an index reads, BuildPause the rest between steps. RangeEntries
	// is how many entries and rows a search of a range examines alternately. Zero means the default.
	BuildRows, RangeEntries int
	BuildPause              time.Duration
	// Trace receives the trace as text; nil means none. It makes a run much slower: every event is formatted.
	Trace io.Writer

	// Unsafe must be empty in a run that has to succeed.
	Unsafe Unsafe
}

// Unsafe contains faults of what is simulated, and parts that tests leave out: a run must then fail. Faults of the code
// are mutants (package mutant).
type Unsafe struct {
	// Sync is how storage syncs its log; the zero value syncs every write before it is acknowledged.
	Sync storage.SyncMode
	// BlankDisksServe lets a node whose disk was wiped start with its former identity.
	BlankDisksServe bool
	// NoWorkers executes blocking work in the calling goroutine: a run must then detect reads on a stream or in the
	// committer.
	NoWorkers bool
	// LyingDisks report syncs that they have not made.
	LyingDisks bool
	// TiesByArrival makes replicas keep the first of two writes with the same timestamp.
	TiesByArrival bool
	// PurgeUnrepaired purges tombstones after gc_grace, whether or not they are repaired.
	PurgeUnrepaired bool
	// NoAutoRepair disables automatic repairs.
	NoAutoRepair bool
}

// DefaultOptions returns the options of a run that must not fail. Each seed uses some of all workloads and kinds of
// faults: with all of them in every run, frequent effects would hide rare ones.
func DefaultOptions(seed uint64) Options {
	o := Options{Seed: seed, Nodes: 4, Factor: 4, Tokens: 4, Clients: 6, Keys: 6, Turns: 10_000,
		Faults: 6 * time.Second}
	// Three ways of drawing keep the seeds that tests name: r for the oldest kinds, late for later ones, and a stream
	// per kind for the newest ones. A new draw from r would change all draws after it.
	r, late := kernel.NewStream(seed, "options"), kernel.NewStream(seed, "late options")
	// Four replicas on four nodes are the default: with them, a node may lose its data (mayLose).
	if r.Chance(150) {
		o.Nodes, o.Factor = 3, 3
	} else if r.Chance(150) {
		o.Nodes, o.Factor = 5, 3+r.Intn(2)
	}
	for _, kind := range workloadKinds() {
		if kind.explicit || kind.drawn {
			continue
		}
		if kind.alone {
			if kernel.NewStream(seed, "options "+kind.name).Chance(200) {
				o.Workloads = append(o.Workloads, kind.name)
			}
			continue
		}
		if !kind.late && r.Chance(350) || kind.late && late.Chance(200) {
			o.Workloads = append(o.Workloads, kind.name)
		}
	}
	// A run without a workload would test nothing.
	if len(o.Workloads) == 0 {
		drawn := slices.DeleteFunc(workloadKinds(), func(k workloadKind) bool {
			return k.explicit || k.late ||
				k.alone || k.drawn
		})
		o.Workloads = []string{drawn[r.Intn(len(drawn))].name}
	}
	for _, kind := range faultKinds() {
		if kind.explicitOnly() || kind.drawn() {
			continue
		}
		if !kind.late() && r.Chance(400) || kind.late() && late.Chance(150) {
			o.FaultKinds = append(o.FaultKinds, string(kind))
		}
	}
	// The default twice, so that a third of the seeds has it.
	policies := []string{"99p", "99p", "ALWAYS", "NEVER", "5ms", "MIN(99p,20ms)"}
	o.SpeculativeRetry = policies[r.Intn(len(policies))]
	if r.Chance(300) {
		o.PageBytes = 100 + r.Intn(400)
	}
	o.FilterRows = 2 + kernel.NewStream(seed, "filter rows").Intn(10)
	if r.Chance(300) {
		// Hints are then written in small pieces, and replayed at a low rate.
		o.HintLimits.BufferBytes = 200
		o.HintLimits.BytesPerSecond = 100_000
	}
	if r.Chance(300) {
		o.Limits.RoundRowsMax = 1
	}
	if r.Chance(200) {
		// A few hundred bytes hold some hints. Most are dropped, and repairs by reads must make up for them.
		o.HintLimits.BytesPerNode = int64(200 + r.Intn(2000))
	}
	if r.Chance(200) {
		o.HintLimits.Flush = r.Between(time.Millisecond, time.Second)
	}
	if r.Chance(200) {
		o.Limits.ResultBytes = 200 + r.Intn(2000)
	}
	if r.Chance(200) {
		o.Limits.RangesInFlight = 1
	}
	for _, p := range points() {
		if !p.drawn && late.Chance(150) {
			o.Points = append(o.Points, p.name)
		}
	}
	if late.Chance(600) {
		o.PaxosMargin = late.Between(time.Millisecond, time.Second)
	}
	return o
}

// String describes all options, for the report of a failure. It is for people; the command that repeats a run is
// Options.Command, because this text cannot be parsed.
func (o Options) String() string {
	return fmt.Sprintf("%d nodes, %d replicas%s, %d clients, %d keys, %v of faults; workloads %s; faults %s; points "+
		"%s; pages of %d bytes and %d omitted rows, "+
		"speculative retry %s, limits %+v, of hints %+v", o.Nodes, o.Factor,
		o.drawnString(), o.Clients, o.Keys, o.Faults,
		strings.Join(o.Workloads, " "), strings.Join(o.FaultKinds, " "), strings.Join(o.Points, " "), o.PageBytes,
		o.FilterRows, o.SpeculativeRetry, o.Limits, o.HintLimits)
}

// kinds returns all kinds of workloads that may run.
func (o Options) kinds() []workloadKind { return append(workloadKinds(), o.Extra...) }

// has reports whether a workload runs.
func (o Options) has(workload string) bool { return slices.Contains(o.Workloads, workload) }
