package simulation

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"cqld/batchlog"
	"cqld/coordinator"
	"cqld/counters"
	"cqld/hints"
	"cqld/listing"
	"cqld/paxos"
	"cqld/storage"
)

// Options are what a run is made of. The seed decides all the rest.
type Options struct {
	Seed   uint64
	Nodes  int
	Factor int // replicas of every partition, over all data centers
	// Datacenters has the replication factor of each data center (dc1, dc2 and so on); empty: one data center, and
	// SimpleStrategy. Their sum is Factor.
	Datacenters []int
	// Far is the delay that a message between data centers has besides the others.
	Far time.Duration
	// NodesMost is how many members the ring has at most; zero: 6, or Nodes when that is more.
	NodesMost int
	Tokens    int // of each node
	Clients   int
	Keys      int
	Turns     int           // of each client, at most
	Faults    time.Duration // how long the nemesis is at work

	Workloads  []string // names of workloadKinds and of Extra
	FaultKinds []string // names of faultKinds
	OnlyFaults []int    // numbers in the plan; nil: all

	// What is drawn from the seed, so that rare ways are taken often somewhere.
	PageBytes        int
	FilterRows       int // that a page of a filtered read may omit
	SpeculativeRetry string
	Limits           coordinator.Limits
	HintLimits       hints.Limits
	// Levels makes conditional changes commit at levels that are drawn for each change, instead of QUORUM.
	Levels bool
	// SlowStreams lets ranges move in small blocks and for seconds, so that much happens meanwhile.
	SlowStreams bool
	// LateTruncates delays some requests to truncate for much longer than their coordinator waits.
	LateTruncates bool
	// ConvergeBy is what must make replicas equal before any client reads them in the healed cluster: ByReads (the
	// default), ByHints or ByRepair.
	ConvergeBy string
	// Hurry makes faults come so many times as often; zero: 1.
	Hurry int
	// Meet looks for operations that are under way at once (meetings.go).
	Meet bool
	// TornWrites makes a power cut keep any subset of the 512-byte sectors that were written and not synced.
	TornWrites bool
	Points     []string // names of points: rare ways that are taken all the time
	// Made is called with a new cluster, before any of its nodes starts; nil means no call.
	Made func(*Cluster)
	// Extra are the workloads of a test, which run besides those of workloadKinds.
	Extra []workloadKind
	// PaxosMargin is how old the state of Paxos is that is purged, below zero also what is made soon; zero: older than a
	// run is long.
	PaxosMargin time.Duration

	// Stretch makes everything that lasts, faults and what clients think about, so many times as long, and Pace the
	// heartbeats of the cluster so many times as rare: with both, weeks go by in minutes. Zero: 1.
	Stretch, Pace int

	Story io.Writer // gets what happened, in words; may be nil

	// What tests remove.
	Sync          storage.SyncMode
	Unsafe        coordinator.Unsafe
	UnsafePaxos   paxos.Unsafe
	HintUnsafe    hints.Unsafe
	BatchUnsafe   batchlog.Unsafe
	CounterUnsafe counters.Unsafe
	ListingUnsafe listing.Unsafe
	// BlankDisksServe lets a node whose disk was wiped come back as the one it was.
	BlankDisksServe bool
	// NoWorkers runs what blocks where it was asked for: a run must then find reads on a stream or in the committer.
	NoWorkers bool
	// LyingDisks say that they have synced what they have not.
	LyingDisks bool
	// TiesByArrival makes replicas keep, of two writes with one stamp, the one that came first.
	TiesByArrival bool
	// NoCompare ends operations of the ring without a comparison of what was gained.
	NoCompare bool
	// ReactToReplay lets nodes act on metadata that no majority has confirmed, and drop ranges without a decision of the ring.
	ReactToReplay bool
	// ForgetFormer lets nodes clean up data of former replications that the present replicas may lack.
	ForgetFormer bool
	// NoPaxosStreams moves ranges without the state of Paxos of their partitions.
	NoPaxosStreams bool
	// PurgeUnrepaired lets tombstones go after gc_grace, repaired or not.
	PurgeUnrepaired bool
	// NoAutoRepair never repairs without a command.
	NoAutoRepair bool
}

// DefaultOptions are those of a run that must not fail. Every seed has some workloads and some kinds
// of faults of all there are: what is always there hides what is rare.
func DefaultOptions(seed uint64) Options {
	o := Options{Seed: seed, Nodes: 4, Factor: 4, Tokens: 4, Clients: 6, Keys: 6, Turns: 10_000, Faults: 6 * time.Second}
	r, late := NewStream(seed, "options"), NewStream(seed, "late options")
	if r.Chance(150) {
		o.Nodes, o.Factor = 3, 3
	} else if r.Chance(150) {
		o.Nodes, o.Factor = 5, 3+r.Intn(2)
	}
	for _, kind := range workloadKinds() {
		if kind.asked || kind.drawn {
			continue
		}
		if kind.alone {
			if NewStream(seed, "options "+kind.name).Chance(200) {
				o.Workloads = append(o.Workloads, kind.name)
			}
			continue
		}
		if !kind.late && r.Chance(350) || kind.late && late.Chance(200) {
			o.Workloads = append(o.Workloads, kind.name)
		}
	}
	if len(o.Workloads) == 0 {
		drawn := slices.DeleteFunc(workloadKinds(), func(k workloadKind) bool { return k.asked || k.late || k.alone || k.drawn })
		o.Workloads = []string{drawn[r.Intn(len(drawn))].name}
	}
	for _, kind := range faultKinds() {
		if kind.asked() || kind.drawn() {
			continue
		}
		if !kind.late() && r.Chance(400) || kind.late() && late.Chance(150) {
			o.FaultKinds = append(o.FaultKinds, kind.name)
		}
	}
	policies := []string{"99p", "99p", "ALWAYS", "NEVER", "5ms", "MIN(99p,20ms)"}
	o.SpeculativeRetry = policies[r.Intn(len(policies))]
	if r.Chance(300) {
		o.PageBytes = 100 + r.Intn(400)
	}
	o.FilterRows = 2 + NewStream(seed, "filter rows").Intn(10)
	if r.Chance(300) {
		o.HintLimits.BufferBytes = 200
		o.HintLimits.BytesPerSecond = 100_000
	}
	if r.Chance(300) {
		o.Limits.RoundRowsMax = 1
	}
	if r.Chance(200) {
		o.HintLimits.BytesPerNode = int64(200 + r.Intn(2000)) // most hints are dropped
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

// String is all of it, for the report of a failure.
func (o Options) String() string {
	return fmt.Sprintf("%d nodes, %d replicas%s, %d clients, %d keys, %v of faults; workloads %s; faults %s; points %s; pages of %d bytes and %d omitted rows, "+
		"speculative retry %s, limits %+v, of hints %+v, without %+v %+v %+v %+v %+v and %+v", o.Nodes, o.Factor, o.drawnString(), o.Clients, o.Keys, o.Faults,
		strings.Join(o.Workloads, " "), strings.Join(o.FaultKinds, " "), strings.Join(o.Points, " "), o.PageBytes, o.FilterRows, o.SpeculativeRetry, o.Limits, o.HintLimits, o.Unsafe, o.HintUnsafe, o.BatchUnsafe, o.CounterUnsafe, o.ListingUnsafe, o.UnsafePaxos)
}

// kinds returns all kinds of workloads that may run.
func (o Options) kinds() []workloadKind { return append(workloadKinds(), o.Extra...) }

// has says whether a workload runs.
func (o Options) has(workload string) bool { return slices.Contains(o.Workloads, workload) }
