package repair

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/ring"
	"cqld/schema"
)

// Options are the dependencies of a Repairer.
type Options struct {
	Coordinator *coordinator.Coordinator // reads at ALL
	View        coordinator.View
	Clock       env.Clock
	Peers       Peers
	Paxos       PaxosStates
	Proposer    Proposer
	Store       LocalStore // keeps the positions of jobs; nil keeps none
	// Run runs work that waits for the disk in a goroutine of its own: one for each job and for Auto. Nil runs it in
	// the caller's goroutine.
	Run    func(func())
	Limits Limits
	// RaiseFloor proposes the Paxos low bound (µs) of a table. nil means that Paxos state is purged up to the present
	// low bounds.
	RaiseFloor func(table schema.StorageID, micros int64, done func(error))
}

// Repairer makes replicas equal. Each Job is a state machine: no method waits.
// It is safe for concurrent use.
type Repairer struct {
	c       *coordinator.Coordinator
	view    coordinator.View
	clock   env.Clock
	peers   Peers
	paxos   PaxosStates
	propose Proposer
	store   LocalStore
	run     func(func())
	limits  Limits
	raise   func(table schema.StorageID, micros int64, done func(error))
	// session is the number of the last session. Units take the next one.
	session atomic.Uint64
	counts  counts
	mu      struct {
		sync.Mutex
		free, urgent time.Duration // monotonic; when each of the two budgets allows the next step
	}
}

// NewRepairer returns a Repairer.
func NewRepairer(o Options) *Repairer {
	r := &Repairer{c: o.Coordinator, view: o.View, clock: o.Clock, peers: o.Peers, paxos: o.Paxos, propose: o.Proposer,
		store: o.Store, run: o.Run,
		limits: o.Limits.withDefaults(), raise: o.RaiseFloor}
	// Sessions of this process start after the sessions of earlier ones, unless the clock was set back. Replicas tell
	// them apart by number only.
	r.session.Store(uint64(r.clock.Now().UnixNano()))
	return r
}

// Job describes one repair.
type Job struct {
	// Name identifies the stored position: a job with the same name, table and range continues where the last one was
	// interrupted. Empty stores no position.
	Name  string
	Table schema.StorageID
	Range ring.Range // may wrap
	Scope Scope
	// SkipDown skips ranges with a replica that is down, or whose replicas are changing, and counts them.
	SkipDown bool
	// PaxosOnly purges Paxos state, and compares nothing, of ranges with one replica.
	PaxosOnly bool
	// Urgent only compares: like a restricted Scope, it neither purges Paxos state nor marks ranges as repaired. It
	// has a budget of its own, Limits.UrgentBytesPerSecond.
	Urgent bool
}

// comparesOnly reports whether the job neither purges Paxos state nor marks ranges as repaired.
func (j *Job) comparesOnly() bool { return j.Urgent || j.Scope.Restricted() }

// Report contains the statistics of a job, so far or at its end.
//
// Ranges is RangesDone, Skipped, Moving and the ranges that are left.
type Report struct {
	Job        Job
	Ranges     int   // with one replica set each
	RangesDone int   // completed
	Skipped    int   // ranges with a replica that is down
	Moving     int   // ranges whose replicas are changing
	Leaves     int   // parts compared
	Differing  int   // parts that differed
	Unsettled  int   // parts that still differed after the last round, because of concurrent writes
	Rows       int64 // sent to replicas
	Bytes      int64 // scanned by replicas
	// A job succeeds although notices did not arrive: the replica only keeps its tombstones longer.
	Unnoticed int // notices that did not arrive
	Forgotten int // Paxos states removed, on all replicas
	Unpurged  int // ranges whose Paxos state could not be purged; their tombstones stay, too
}

// Unavailable is the error of a repair that needs nodes that are down.
//
// Nothing of the range was compared. With Job.SkipDown such ranges are counted instead.
type Unavailable struct {
	Range ring.Range
	Nodes []ring.NodeID
	names string
}

func (e *Unavailable) Error() string {
	return fmt.Sprintf("repair of %v needs replicas that are down: %s", e.Range, e.names)
}

// Failed is the error of a repair in which a replica failed.
type Failed struct {
	Range ring.Range
	Node  ring.NodeID // 0 when the failure is not of one node
	Err   error
	name  string // of Node
}

func (e *Failed) Error() string {
	if e.Node == 0 {
		return fmt.Sprintf("repair of %v failed: %v", e.Range, e.Err)
	}
	return fmt.Sprintf("repair of %v failed at %s: %v", e.Range, e.name, e.Err)
}

// Unwrap returns the cause.
func (e *Failed) Unwrap() error { return e.Err }

// Errors of a repair.
var (
	ErrCancelled = errors.New("repair: cancelled")
	// ErrMoving reports that the replicas of the range are changing. Retry when the operation has ended.
	ErrMoving = errors.New("repair: the range is changing its replicas")
)
