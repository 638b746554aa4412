package repair

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/invariant"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
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

// Repairer makes replicas equal. Each Job is a state machine: no method waits, and no lock is held between two events.
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
	Unnoticed  int   // notices that did not arrive
	Forgotten  int   // Paxos states removed, on all replicas
	Unpurged   int   // ranges whose Paxos state could not be purged; their tombstones stay, too
}

// Unavailable is the error of a repair that needs nodes that are down.
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

// Run is a job in progress.
type Run struct {
	r        *Repairer
	job      Job
	progress func(Report)
	done     func(Report, error)

	events serial
	report Report
	rows   row.Repair
	left   []ring.Range // ranges not yet done
	ended  bool
	unit   *unit
	timer  env.Timer // of a pause
	// conditional reports that there may be Paxos state of the table.
	conditional bool
	// refusals counts the refusals by replicas with a later topology since a range was completed.
	refusals int
}

// serial calls functions one after the other: a function that arrives while another runs is called after it. So events
// of one state machine never run concurrently and never nest. They may block on the disk: run calls them in a separate
// goroutine. If run is nil, the first caller runs them.
type serial struct {
	run     func(func())
	mu      sync.Mutex
	queue   []func()
	running bool
}

func (s *serial) do(f func()) {
	s.mu.Lock()
	s.queue = append(s.queue, f)
	if s.running {
		s.mu.Unlock()
		return
	}
	s.running = true
	s.mu.Unlock()
	if s.run != nil {
		s.run(s.drain)
		return
	}
	s.drain()
}

// drain calls the queued functions.
func (s *serial) drain() {
	for f := s.next(); f != nil; f = s.next() {
		f()
	}
}

// next returns the next queued function. nil means that none is left: the next call of do drains again.
func (s *serial) next() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		s.running = false
		return nil
	}
	f := s.queue[0]
	s.queue = s.queue[1:]
	return f
}

// Start starts a job. It calls progress, which may be nil, after every range, and done once.
func (r *Repairer) Start(job Job, progress func(Report), done func(Report, error)) *Run {
	if progress == nil {
		progress = func(Report) {}
	}
	j := &Run{r: r, job: job, progress: progress, done: done, events: serial{run: r.run}}
	j.report.Job = job
	r.counts.running.Add(1)
	j.events.do(j.begin)
	return j
}

// Cancel ends the job with ErrCancelled, unless it has ended.
func (j *Run) Cancel() {
	j.events.do(func() { j.end(ErrCancelled) })
}

func (j *Run) end(err error) {
	if j.ended {
		return
	}
	invariant.Check(err != nil || len(j.left) == 0, "repair: a job succeeds before its last range")
	j.ended = true
	if j.timer != nil {
		j.timer.Stop()
	}
	if err == nil && j.key() != nil {
		_ = j.r.store.DeleteLocal(j.key(), false) // on failure the job is repeated
	}
	report := j.snapshot()
	j.r.counts.ended(&report, err)
	j.done(report, err)
}

func (j *Run) snapshot() Report {
	j.report.Rows = j.rows.Rows.Load()
	return j.report
}

// begin determines the ranges of the job.
func (j *Run) begin() {
	table := j.r.view.Schema().TableByStorage(j.job.Table)
	if table == nil {
		j.end(&coordinator.UnknownTable{Table: j.job.Table})
		return
	}
	if table.Replication.Class == ring.Local {
		j.end(nil) // the table has no other replica
		return
	}
	j.left = j.r.pieces(table, j.rest(), &j.job.Scope)
	j.report.Ranges = len(j.left)
	if j.job.comparesOnly() {
		j.next()
		return
	}
	j.raiseLowBound(table)
}

// halves returns r, or two halves when r is the whole ring: the range of a tree must not wrap.
func halves(r ring.Range) []ring.Range {
	if r.Start == r.End {
		return []ring.Range{{Start: r.Start, End: 0}, {Start: 0, End: r.End}}
	}
	return []ring.Range{r}
}

// The local key of a job's position, and its value:
//
//	repair/ name → table 4, start 8, end 8, part 4, token 8
//
// The range has one or two parts that do not wrap. All parts before part are done, and part is done up to token.
func (j *Run) key() []byte {
	if j.r.store == nil || j.job.Name == "" {
		return nil
	}
	return append([]byte("repair/"), j.job.Name...)
}

// rest returns the ranges that an earlier job of the same name has not completed.
func (j *Run) rest() []ring.Range {
	all := j.job.Range.Unwrap()
	key := j.key()
	if key == nil {
		return all
	}
	record, err := j.r.store.GetLocal(key)
	if err != nil || record == nil {
		return all
	}
	c := wire.NewCursor(record)
	table, of := schema.StorageID(c.Uint32()), ring.Range{Start: ring.Token(c.Int64()), End: ring.Token(c.Int64())}
	part, token := int(c.Uint32()), ring.Token(c.Int64())
	if c.Finish() != nil || table != j.job.Table || of != j.job.Range || part >= len(all) {
		return all
	}
	all = all[part:]
	if all[0].Start = token; all[0].Start == all[0].End {
		all = all[1:]
	}
	return all
}

// store stores the position after a range.
func (j *Run) store(r ring.Range) {
	key := j.key()
	if key == nil {
		return
	}
	part := 0
	if all := j.job.Range.Unwrap(); len(all) == 2 && r.Start >= all[1].Start {
		part = 1
	}
	b := wire.AppendUint32(nil, uint32(j.job.Table))
	b = wire.AppendInt64(wire.AppendInt64(b, int64(j.job.Range.Start)), int64(j.job.Range.End))
	b = wire.AppendInt64(wire.AppendUint32(b, uint32(part)), int64(r.End))
	_ = j.r.store.SetLocal(key, b, false) // on failure the range is repeated
}

// next starts the next range.
func (j *Run) next() {
	if j.ended {
		return
	}
	j.check()
	j.progress(j.snapshot())
	if len(j.left) == 0 {
		j.end(nil)
		return
	}
	r := j.left[0]
	table := j.r.view.Schema().TableByStorage(j.job.Table)
	if table == nil {
		j.end(&coordinator.UnknownTable{Table: j.job.Table})
		return
	}
	topology := j.r.view.Topology()
	// The ring may have changed since the job was divided into ranges.
	if pieces := topology.Placement(table.Replication).Ranges(r); len(pieces) > 1 {
		var finer []ring.Range
		for _, p := range pieces {
			finer = append(finer, p.Range)
		}
		j.report.Ranges += len(pieces) - 1
		j.left = append(finer, j.left[1:]...)
		r = j.left[0]
	}
	j.unit = newUnit(j, table, topology, r)
	j.unit.begin()
}

// unitDone is the event of the end of a range.
func (j *Run) unitDone(u *unit, err error) {
	if j.ended || j.unit != u {
		return
	}
	j.unit = nil
	var down *Unavailable
	switch {
	case err == nil:
		j.report.RangesDone++
		j.refusals = 0
		j.store(u.tokens)
	case errors.As(err, &down) && j.job.SkipDown:
		j.report.Skipped++
	case errors.Is(err, ErrMoving) && j.job.SkipDown:
		j.report.Moving++
	default:
		j.end(err)
		return
	}
	j.left = slices.Delete(j.left, 0, 1)
	j.next()
}

// after calls f after a pause, as an event of the job.
func (j *Run) after(d time.Duration, f func()) {
	event := func() {
		j.events.do(func() {
			if !j.ended {
				f()
			}
		})
	}
	if d <= 0 {
		event()
		return
	}
	j.timer = j.r.clock.After(d, event)
}

// spend takes bytes from the node's budget for repairs and returns how long to wait for it. The budget may be overdrawn
// slightly: a timer for each step would only delay the repair.
func (j *Run) spend(bytes int64) time.Duration {
	const lent = 20 * time.Millisecond
	r := j.r
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Monotonic()
	free, rate := &r.mu.free, r.limits.BytesPerSecond
	if j.job.Urgent {
		free, rate = &r.mu.urgent, r.limits.UrgentBytesPerSecond
	}
	*free = max(*free, now) + time.Duration(bytes*int64(time.Second)/rate)
	if wait := *free - now; wait > lent {
		return wait
	}
	return 0
}
