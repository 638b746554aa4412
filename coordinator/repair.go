package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cqld/internal/env"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// LeafHash is the hash of what one replica holds of a part of a range: a sum, so that it can be made in
// steps.
type LeafHash struct {
	Sum  [2]uint64
	Rows uint64
}

// Add adds a hash of other rows.
func (h *LeafHash) Add(o LeafHash) {
	h.Sum[0] += o.Sum[0]
	h.Sum[1] += o.Sum[1]
	h.Rows += o.Rows
}

// HashRequest asks a replica for one step of hashing a range that does not wrap, in Leaves parts.
type HashRequest struct {
	Session uint64 // of the repair; see RepairNotice
	Epoch   uint64
	Table   schema.StorageID
	Tokens  ring.Range
	Leaves  int
	Now     int64  // seconds; the same for all replicas
	After   []byte // HashStep.Next of the step before; nil at first
	// Since is the epoch that the replica must know: it refuses as long as it does not, and waits until
	// all that it admitted before it did is with its storage. Zero: any.
	Since uint64
}

// HashStep is what one step found.
type HashStep struct {
	Leaves  []int // of which Hashes are
	Hashes  []LeafHash
	Next    []byte // nil when the range is done
	Scanned int64  // bytes
	Size    int64  // of the whole range on disk, about
}

// RepairNotice says that all replicas of a range have everything that any of them was sent before
// Until (seconds). Session names the repair that saw to that: what a node lost after its first step in
// it is not healed by it.
type RepairNotice struct {
	Session uint64
	Table   schema.StorageID
	Tokens  ring.Range
	Until   int64
}

// RepairPeers is how a repair talks to replicas, this node's own included. done is called once,
// possibly at once; what the step points to is the callee's.
type RepairPeers interface {
	Hash(node ring.NodeID, req *HashRequest, timeout time.Duration, done func(HashStep, error))
	Repaired(node ring.NodeID, notice *RepairNotice, timeout time.Duration, done func(error))
}

// LocalStore is a node's own keys.
type LocalStore interface {
	SetLocal(key, value []byte, sync bool) error
	GetLocal(key []byte) ([]byte, error)
	DeleteLocal(key []byte, sync bool) error
	ScanLocal(prefix []byte, f func(key, value []byte) error) error
}

// RepairLimits are the bounds of repairs. Zero means the default.
type RepairLimits struct {
	// BytesPerSecond is how much replicas are made to scan in all, for the repairs of this node: 16 MiB/s
	// are 3 % of a core at the 650 MB/s of storage.Engine.Hash, and 1.4 TB a day.
	BytesPerSecond int64
	// LeafBytes is how much a leaf holds, about: what differs in one row is read again in so much.
	LeafBytes int64
	// LeavesMax bounds the tree: 24 bytes for each of 4096 leaves and replica.
	LeavesMax int
	// PageRows is how many rows one repairing read compares.
	PageRows uint32
	// Timeout is how long a step, a read or a notice may take.
	Timeout time.Duration
	// Attempts is how often a step, a read or a notice is tried, with a pause of RetryPause before the
	// second and twice as much before each further one.
	Attempts   int
	RetryPause time.Duration
	// Rounds is how often a leaf is read until its hashes agree: under writes they may never, as the
	// replicas are not hashed at the same moment.
	Rounds int
	// Margin is how much older than the repair a deletion must be that counts as repaired: what is older
	// has arrived, whatever delays and clocks.
	Margin time.Duration
}

func (l RepairLimits) withDefaults() RepairLimits {
	setDefault(&l.BytesPerSecond, 16<<20)
	setDefault(&l.LeafBytes, 256<<10)
	if l.LeavesMax == 0 {
		l.LeavesMax = 4096
	}
	setDefault(&l.PageRows, 1000)
	setDefault(&l.Timeout, 30*time.Second)
	if l.Attempts == 0 {
		l.Attempts = 4
	}
	if l.Rounds == 0 {
		l.Rounds = 3
	}
	setDefault(&l.RetryPause, time.Second)
	setDefault(&l.Margin, time.Minute)
	return l
}

// RepairOptions are what a Repairer is made of.
type RepairOptions struct {
	Coordinator *Coordinator
	Peers       RepairPeers
	Store       LocalStore // keeps how far jobs are; nil: nothing does
	Limits      RepairLimits
}

// Repairer makes replicas equal: it compares hashes of what they hold, and reads what differs at ALL,
// whose read repair is the only thing that writes.
//
//	job ── range by range, in token order ──▶ unit: one range with one replica set
//	unit ── hash ──▶ every replica, step by step      ── differing leaves ──▶ read at ALL, page by page
//	     ── hash the leaf again, to see                ── RepairNotice ──▶ every replica
//
// Jobs are state machines: nothing waits, nothing is held between two events but the job's own state.
type Repairer struct {
	c       *Coordinator
	peers   RepairPeers
	store   LocalStore
	limits  RepairLimits
	session atomic.Uint64
	mu      struct {
		sync.Mutex
		free time.Duration // monotonic: when the budget is next not used up
	}
}

// NewRepairer makes a Repairer.
func NewRepairer(o RepairOptions) *Repairer {
	r := &Repairer{c: o.Coordinator, peers: o.Peers, store: o.Store, limits: o.Limits.withDefaults()}
	r.session.Store(uint64(r.c.clock.Now().UnixNano()))
	return r
}

// RepairJob is what is to be repaired.
type RepairJob struct {
	// Name is under which the job's position is kept: a job of the same name, table and range goes on where
	// the last one was interrupted. Empty: from the beginning.
	Name  string
	Table schema.StorageID
	Range ring.Range // may wrap
	// SkipDown passes over ranges with a replica that is down, and counts them.
	SkipDown bool
}

// RepairReport is what a repair has done so far, or in all.
type RepairReport struct {
	Job        RepairJob
	Ranges     int   // with one replica set each
	RangesDone int   // of them
	Skipped    int   // of them, those with a replica that is down
	Leaves     int   // parts compared
	Differing  int   // parts that differed
	Unsettled  int   // of them, those that still differed after the last round: they are being written to
	Rows       int64 // sent to replicas
	Bytes      int64 // scanned by replicas
	Unnoticed  int   // notices that did not arrive
}

// RepairUnavailable is the error of a repair that cannot be made while nodes are down.
type RepairUnavailable struct {
	Range ring.Range
	Nodes []ring.NodeID
}

func (e *RepairUnavailable) Error() string {
	return fmt.Sprintf("coordinator: repair of %v needs all its replicas, and nodes %v are down", e.Range, e.Nodes)
}

// RepairFailed is the error of a repair that a replica could not take part in.
type RepairFailed struct {
	Range ring.Range
	Node  ring.NodeID // 0 when it is not one node's
	Err   error
}

func (e *RepairFailed) Error() string {
	return fmt.Sprintf("coordinator: repair of %v failed at node %d: %v", e.Range, e.Node, e.Err)
}

// Unwrap is what failed.
func (e *RepairFailed) Unwrap() error { return e.Err }

// Errors of a repair.
var (
	ErrRepairCancelled = errors.New("coordinator: the repair was cancelled")
	// ErrRepairMoving: the range is changing hands. Try again when that is over.
	ErrRepairMoving = errors.New("coordinator: the range is changing its replicas")
)

// Repair is a job under way.
type Repair struct {
	r        *Repairer
	job      RepairJob
	progress func(RepairReport)
	done     func(RepairReport, error)

	events serial
	report RepairReport
	rows   row.Repair
	left   []ring.Range // ranges still to do
	ended  bool
	unit   *repairUnit
	timer  env.Timer // of a pause
	// refusals is how often replicas knew of a later ring since a range was last done.
	refusals int
}

// serial calls functions one after the other, whoever brings them: one that comes while another runs is
// called after it, by the goroutine that is there. So events of one machine never meet, and never nest.
type serial struct {
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
	for len(s.queue) > 0 {
		f, s.queue = s.queue[0], s.queue[1:]
		s.mu.Unlock()
		f()
		s.mu.Lock()
	}
	s.running = false
	s.mu.Unlock()
}

// Start begins a job. progress, which may be nil, is called after every range; done once.
func (r *Repairer) Start(job RepairJob, progress func(RepairReport), done func(RepairReport, error)) *Repair {
	if progress == nil {
		progress = func(RepairReport) {}
	}
	j := &Repair{r: r, job: job, progress: progress, done: done}
	j.report.Job = job
	j.events.do(j.begin)
	return j
}

// Cancel ends the job; done gets ErrRepairCancelled, unless it has ended.
func (j *Repair) Cancel() {
	j.events.do(func() { j.end(ErrRepairCancelled) })
}

func (j *Repair) end(err error) {
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
	j.done(j.snapshot(), err)
}

func (j *Repair) snapshot() RepairReport {
	j.report.Rows = j.rows.Rows.Load()
	return j.report
}

// begin finds what is to be done.
func (j *Repair) begin() {
	table := j.r.c.view.Schema().TableByStorage(j.job.Table)
	if table == nil {
		j.end(&UnknownTable{Table: j.job.Table})
		return
	}
	if table.Replication.Class == ring.Local {
		j.end(nil) // nobody else has it
		return
	}
	placement := j.r.c.view.Topology().Placement(table.Replication)
	for _, r := range j.rest() {
		for _, piece := range placement.Ranges(r) {
			j.left = append(j.left, halves(piece.Range)...)
		}
	}
	j.report.Ranges = len(j.left)
	j.next()
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
func (j *Repair) key() []byte {
	if j.r.store == nil || j.job.Name == "" {
		return nil
	}
	return append([]byte("repair/"), j.job.Name...)
}

// rest is what an earlier job of the name has not done.
func (j *Repair) rest() []ring.Range {
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
func (j *Repair) store(r ring.Range) {
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
func (j *Repair) next() {
	if j.ended {
		return
	}
	j.progress(j.snapshot())
	if len(j.left) == 0 {
		j.end(nil)
		return
	}
	r := j.left[0]
	table := j.r.c.view.Schema().TableByStorage(j.job.Table)
	if table == nil {
		j.end(&UnknownTable{Table: j.job.Table})
		return
	}
	topology := j.r.c.view.Topology()
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
	j.unit = newRepairUnit(j, table, topology, r)
	j.unit.begin()
}

// unitDone is the outcome of a range.
func (j *Repair) unitDone(u *repairUnit, err error) {
	if j.ended || j.unit != u {
		return
	}
	j.unit = nil
	var down *RepairUnavailable
	switch {
	case err == nil:
		j.report.RangesDone++
		j.refusals = 0
		j.store(u.tokens)
	case errors.As(err, &down) && j.job.SkipDown:
		j.report.Skipped++
	default:
		j.end(err)
		return
	}
	j.left = slices.Delete(j.left, 0, 1)
	j.next()
}

// after calls f after a pause, as an event of the job.
func (j *Repair) after(d time.Duration, f func()) {
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
	j.timer = j.r.c.clock.After(d, event)
}

// spend takes bytes from the budget of all repairs and says how long to wait until it is even. A little
// is lent: a timer for each step would only make it late.
func (r *Repairer) spend(bytes int64) time.Duration {
	const lent = 20 * time.Millisecond
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.c.clock.Monotonic()
	r.mu.free = max(r.mu.free, now) + time.Duration(bytes*int64(time.Second)/r.limits.BytesPerSecond)
	if wait := r.mu.free - now; wait > lent {
		return wait
	}
	return 0
}
