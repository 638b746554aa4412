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
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// Options are what a Repairer is made of.
type Options struct {
	Coordinator *coordinator.Coordinator // reads at ALL
	View        coordinator.View
	Clock       env.Clock
	Peers       Peers
	Paxos       PaxosStates
	Store       LocalStore // keeps how far jobs are; nil: nothing does
	// Run does work that takes the time of a disk, in a goroutine of its own: one for each job and for Auto. Nil: the
	// caller does it.
	Run    func(func())
	Limits Limits
	// RaiseFloor proposes a Paxos floor (µs) of a table; nil: state of Paxos is purged up to the floors there are.
	RaiseFloor func(table schema.StorageID, micros int64, done func(error))
}

// Repairer makes replicas equal, job by job.
//
// Jobs are state machines: nothing waits, nothing is held between two events but the job's own state.
type Repairer struct {
	c       *coordinator.Coordinator
	view    coordinator.View
	clock   env.Clock
	peers   Peers
	paxos   PaxosStates
	store   LocalStore
	run     func(func())
	limits  Limits
	raise   func(table schema.StorageID, micros int64, done func(error))
	session atomic.Uint64
	counts  counts
	mu      struct {
		sync.Mutex
		free, urgent time.Duration // monotonic: when the two budgets are next not used up
	}
}

// NewRepairer makes a Repairer.
func NewRepairer(o Options) *Repairer {
	r := &Repairer{c: o.Coordinator, view: o.View, clock: o.Clock, peers: o.Peers, paxos: o.Paxos, store: o.Store, run: o.Run,
		limits: o.Limits.withDefaults(), raise: o.RaiseFloor}
	r.session.Store(uint64(r.clock.Now().UnixNano()))
	return r
}

// Job is what is to be repaired.
type Job struct {
	// Name is under which the job's position is kept: a job of the same name, table and range goes on where
	// the last one was interrupted. Empty: from the beginning.
	Name  string
	Table schema.StorageID
	Range ring.Range // may wrap
	// SkipDown passes over ranges with a replica that is down, or that change their replicas, and counts them.
	SkipDown bool
	// PaxosOnly compares nothing where there is one replica.
	PaxosOnly bool
	// Urgent compares, and does no more: neither is the state of Paxos purged, nor are replicas told that the range is
	// repaired. It has a budget of its own, Limits.UrgentBytesPerSecond.
	Urgent bool
}

// Report is what a repair has done so far, or in all.
type Report struct {
	Job        Job
	Ranges     int   // with one replica set each
	RangesDone int   // of them
	Skipped    int   // of them, those with a replica that is down
	Moving     int   // of them, those that change their replicas
	Leaves     int   // parts compared
	Differing  int   // parts that differed
	Unsettled  int   // of them, those that still differed after the last round: they are being written to
	Rows       int64 // sent to replicas
	Bytes      int64 // scanned by replicas
	Unnoticed  int   // notices that did not arrive
	Forgotten  int   // states of Paxos, on all replicas
	Unpurged   int   // ranges whose state of Paxos could not be purged; their tombstones stay, too
}

// Unavailable is the error of a repair that cannot be made while nodes are down.
type Unavailable struct {
	Range ring.Range
	Nodes []ring.NodeID
	names string
}

func (e *Unavailable) Error() string {
	return fmt.Sprintf("repair of %v needs all its replicas, and these are down: %s", e.Range, e.names)
}

// Failed is the error of a repair that a replica could not take part in.
type Failed struct {
	Range ring.Range
	Node  ring.NodeID // 0 when it is not one node's
	Err   error
	name  string // of Node
}

func (e *Failed) Error() string {
	if e.Node == 0 {
		return fmt.Sprintf("repair of %v failed: %v", e.Range, e.Err)
	}
	return fmt.Sprintf("repair of %v failed at %s: %v", e.Range, e.name, e.Err)
}

// Unwrap is what failed.
func (e *Failed) Unwrap() error { return e.Err }

// Errors of a repair.
var (
	ErrCancelled = errors.New("repair: cancelled")
	// ErrMoving: the range is changing hands. Try again when that is over.
	ErrMoving = errors.New("repair: the range is changing its replicas")
)

// Run is a job under way.
type Run struct {
	r        *Repairer
	job      Job
	progress func(Report)
	done     func(Report, error)

	events serial
	report Report
	rows   row.Repair
	left   []ring.Range // ranges still to do
	ended  bool
	unit   *unit
	timer  env.Timer // of a pause
	// conditional says that there is Paxos state of the table here, or that nobody knows.
	conditional bool
	// refusals is how often replicas knew of a later ring since a range was last done.
	refusals int
}

// serial calls functions one after the other: one that comes while another runs is called after it. So events of one
// machine never meet, and never nest. They may wait for the disk: run calls them in a goroutine of their own. With a
// nil run the first caller does.
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

// drain calls what is queued.
func (s *serial) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) > 0 {
		f := s.queue[0]
		s.queue = s.queue[1:]
		s.mu.Unlock()
		f()
		s.mu.Lock()
	}
	s.running = false
}

// Start begins a job. progress, which may be nil, is called after every range; done once.
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

// Cancel ends the job; done gets ErrCancelled, unless it has ended.
func (j *Run) Cancel() {
	j.events.do(func() { j.end(ErrCancelled) })
}

func (j *Run) end(err error) {
	if j.ended {
		return
	}
	j.ended = true
	if j.timer != nil {
		j.timer.Stop()
	}
	if err == nil && j.key() != nil {
		_ = j.r.store.DeleteLocal(j.key(), false) // it would be begun again, no more
	}
	report := j.snapshot()
	j.r.counts.ended(&report, err)
	j.done(report, err)
}

func (j *Run) snapshot() Report {
	j.report.Rows = j.rows.Rows.Load()
	return j.report
}

// begin finds what is to be done.
func (j *Run) begin() {
	table := j.r.view.Schema().TableByStorage(j.job.Table)
	if table == nil {
		j.end(&coordinator.UnknownTable{Table: j.job.Table})
		return
	}
	if table.Replication.Class == ring.Local {
		j.end(nil) // nobody else has it
		return
	}
	placement := j.r.view.Topology().Placement(table.Replication)
	for _, r := range j.rest() {
		for _, piece := range placement.Ranges(r) {
			j.left = append(j.left, halves(piece.Range)...)
		}
	}
	j.report.Ranges = len(j.left)
	if j.job.Urgent {
		j.next()
		return
	}
	j.raiseFloor(table)
}

// halves is r, in two when it is the whole ring: a tree's range has two ends.
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
// Of the one or two parts of the range that do not wrap, all before part are done, and that one up to
// token.
func (j *Run) key() []byte {
	if j.r.store == nil || j.job.Name == "" {
		return nil
	}
	return append([]byte("repair/"), j.job.Name...)
}

// rest is what an earlier job of the name has not done.
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

// store notes that all up to the end of a range is done.
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
	_ = j.r.store.SetLocal(key, b, false) // it would be done again, no more
}

// next begins the next range.
func (j *Run) next() {
	if j.ended {
		return
	}
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
	// The ring may have changed since the job was cut into ranges.
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

// unitDone is the outcome of a range.
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

// spend takes bytes from the budget of the node's repairs and says how long to wait until it is even. A little
// is lent: a timer for each step would only make it late.
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
