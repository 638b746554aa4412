package rebalance

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/replica"
	"cqld/ring"
	"cqld/schema"
)

// OperationLog is the cluster as Movements tells it of progress. done is called once.
type OperationLog interface {
	StartStreamed(operation uint64, done func(error))
	StartCompared(operation uint64, done func(error))
	StartHanded(operation uint64, done func(error))
}

// MovementOptions are what Movements are made of; all are required but Note.
type MovementOptions struct {
	View    coordinator.View
	Log     OperationLog // the cluster
	Streams *Streams
	Local   *replica.Local // of which it asks what is being dropped
	Hashes  Hashes
	Clock   env.Clock
	// HandOver gives to others what this node keeps for them, when it leaves. done is told once: nil when it has,
	// or why it has not: it stays.
	HandOver func(done func(error))
	// Run does work that takes the time of a disk, as StreamOptions.Run.
	Run func(func())
	// Note tells the operator; nil: nobody.
	Note func(message string)
	// LeafBytes is how much of a range is compared, and fetched when it differs, at a time; zero: 256 KiB.
	LeafBytes int64
	// NoCompare, of tests, ends operations without a comparison.
	NoCompare bool
	// NoPaxosStreams, of tests, fetches ranges without what acceptors promised and accepted there.
	NoPaxosStreams bool
}

// Movements follows the ring's operations on this node: it fetches the ranges that this node gains and says
// so when it has them, and compares them before the operation ends. Drops remove those that it lost.
//
//	Streaming: for each range and table: pull from the one who loses it, or from a quorum's complement
//	           of those who keep it ── all here ──▶ OperationLog.StartStreamed
//	known:     compare each range and table with the same ones, and pull the parts that differ
//	           ── all compared ──▶ OperationLog.StartCompared
//	leaving:   hand over what this node keeps for others ──▶ OperationLog.StartHanded
type Movements struct {
	o  MovementOptions
	mu struct {
		sync.Mutex
		moves   map[uint64]*move
		handing uint64 // the operation by which this node leaves, once it hands over
		closed  bool
	}
}

// NewMovements makes the moves of a node. Reconcile is to be called when it has started.
func NewMovements(o MovementOptions) *Movements {
	m := &Movements{o: o}
	if m.o.Note == nil {
		m.o.Note = func(string) {}
	}
	m.mu.moves = map[uint64]*move{}
	m.o.LeafBytes = cmp.Or(m.o.LeafBytes, compareLeafBytes)
	return m
}

// sessionsAhead is how many pulls of one operation are handed to Streams at a time.
const sessionsAhead = 16

// movementRetry is how long an operation pauses when a range has too few living sources, or the cluster did
// not take the news.
const movementRetry = time.Second

// stuckReported is after how many attempts the operator is told what is waited for: a node that has just come has not heard
// the others yet.
const stuckReported = 4

// fetch is one range of one replication's tables that this node gains.
type fetch struct {
	gain   ring.Gain
	tables []schema.StorageID
	// name is the keyspace, "" when tables are of several. What the program keeps for itself holds nobody up.
	name string
}

// move is one operation as far as it concerns this node; guarded by Movements.mu.
type move struct {
	m         *Movements
	operation *ring.Operation
	compare   bool            // what was fetched before
	todo      []*fetch        // not begun
	again     []*fetch        // failed, for after a pause
	begun     map[string]bool // sessions under way, or ended well
	waiting   []Session       // of the range begun last
	running   int
	total     int // ranges
	bytes     map[string]int64
	sessions  []string
	told      bool
	over      bool
	stuck     int // attempts that lacked living sources, since the last that did not
}

// Reconcile compares what this node does with what a topology that was confirmed asks for. It is called after every change, by
// one caller at a time, and gets the topologies in their order.
func (m *Movements) Reconcile(t *ring.Topology) {
	self := m.o.View.Self()
	m.mu.Lock()
	if m.mu.closed || self == 0 {
		m.mu.Unlock()
		return
	}
	var ended, begun []*move
	for id, v := range m.mu.moves {
		if o := t.Operation(id); o == nil || v.compare != (o.Phase == ring.Switching) {
			v.over = true
			delete(m.mu.moves, id)
			ended = append(ended, v)
		}
	}
	for _, o := range t.Operations() {
		if m.mu.moves[o.ID] == nil && m.concerns(o, self) {
			v := &move{m: m, operation: o, compare: o.Known, bytes: map[string]int64{}, begun: map[string]bool{}}
			m.mu.moves[o.ID] = v
			begun = append(begun, v)
		}
	}
	m.mu.Unlock()
	slices.SortFunc(ended, func(a, b *move) int { return int(int64(a.operation.ID) - int64(b.operation.ID)) })
	for _, v := range ended {
		v.forget()
	}
	for _, v := range begun {
		v.begin(t)
	}
	m.handOver(t, self)
}

// concerns says whether this node has something to do for an operation at its present phase.
func (m *Movements) concerns(o *ring.Operation, self ring.NodeID) bool {
	if !slices.Contains(o.Gaining, self) {
		return false
	}
	return o.Phase == ring.Streaming && !slices.Contains(o.Streamed, self) || o.Known && !slices.Contains(o.Compared, self)
}

// Close stops what is under way; the next start goes on with it.
func (m *Movements) Close() {
	m.mu.Lock()
	m.mu.closed = true
	m.mu.Unlock()
}

// begin lists what is to be fetched.
func (v *move) begin(t *ring.Topology) {
	catalog := v.m.o.View.Schema()
	for _, name := range catalog.KeyspaceNames() {
		k := catalog.Keyspace(name)
		if k.Replication.Class == ring.Local {
			continue
		}
		tables := tablesOf(k)
		if len(tables) == 0 {
			continue
		}
		if v.compare && v.m.o.NoCompare {
			continue
		}
		if !v.compare && !v.m.o.NoPaxosStreams { // votes count on both sides: nothing of them is on one side alone
			tables = append(tables, paxosTables(catalog)...)
		}
		for _, g := range t.Gains(v.operation, k.Replication, v.m.o.View.Self()) {
			v.todo = append(v.todo, &fetch{gain: g, tables: tables, name: name})
		}
	}
	v.total = len(v.todo)
	v.m.o.Note(fmt.Sprintf("operation %d (%s): this node %s %d ranges", v.operation.ID, v.operation.Kind, v.verb(), v.total))
	v.proceed()
}

func (v *move) verb() string {
	if v.compare {
		return "compares"
	}
	return "fetches"
}

// epoch is that which sources must know.
func (v *move) epoch() uint64 {
	if v.compare {
		return v.operation.Switched
	}
	return v.operation.ID
}

// ahead is how many pulls are begun at a time.
func (v *move) ahead() int {
	if v.compare {
		return comparesAhead
	}
	return sessionsAhead
}

func tablesOf(k *schema.Keyspace) (ids []schema.StorageID) {
	for _, name := range k.TableNames() {
		ids = append(ids, k.Table(name).StorageID)
	}
	return ids
}

// paxosTables is the table of what acceptors promised: it goes with the data it is about.
func paxosTables(catalog *schema.Schema) []schema.StorageID {
	if t := catalog.Table("system", "paxos"); t != nil {
		return []schema.StorageID{t.StorageID}
	}
	return nil
}

// proceed hands pulls to the streams, and tells the cluster when none is left.
func (v *move) proceed() {
	for {
		v.m.mu.Lock()
		if v.over || v.m.mu.closed || v.running >= v.ahead() {
			v.m.mu.Unlock()
			return
		}
		if len(v.waiting) == 0 && len(v.todo) > 0 {
			pulls, ok := v.plan(v.todo[0])
			if !ok {
				f := v.todo[0]
				v.stuck++
				tell := v.stuck == stuckReported
				v.m.mu.Unlock()
				if tell {
					v.m.o.Note(v.stuckReason(f))
				}
				v.later()
				return
			}
			v.waiting, v.todo, v.stuck = pulls, v.todo[1:], 0
			v.m.mu.Unlock()
			continue
		}
		if len(v.waiting) == 0 {
			finished := v.running == 0 && len(v.again) == 0 && !v.told
			v.told = v.told || finished
			v.m.mu.Unlock()
			if finished {
				v.tell()
			}
			return
		}
		p := v.waiting[0]
		v.waiting = v.waiting[1:]
		if v.begun[p.ID] {
			// Keyspaces may gain one range from one node, and then its Paxos state is fetched for both.
			v.m.mu.Unlock()
			continue
		}
		v.begun[p.ID] = true
		v.running++
		v.m.mu.Unlock()
		if v.compare {
			v.compareWith(p)
			continue
		}
		v.start(p, func(err error) { v.pulled(p, err) })
	}
}

// start hands a pull to the streams.
func (v *move) start(p Session, done func(error)) {
	v.m.mu.Lock()
	v.sessions = append(v.sessions, p.ID)
	v.m.mu.Unlock()
	if v.m.o.Local.Fenced(p.Table, p.Range) {
		done(v.m.o.Streams.failure(p, replica.ErrFenced))
		return
	}
	v.m.o.Streams.Start(p, func(bytes int64) { v.progress(p.ID, bytes) }, done)
}

// plan says whom to fetch a range from: the one who loses it, when it lives, because what a quorum
// acknowledged with its copy is met with this node's; else so many of the others that at least one of
// them has each such write.
func (v *move) plan(f *fetch) (pulls []Session, ok bool) {
	from := []ring.NodeID{f.gain.From}
	if f.gain.From == 0 || !v.m.o.View.Alive(f.gain.From) {
		if from, ok = v.others(f.gain); !ok && !schema.IsReplicatedSystem(f.name) {
			return nil, false
		}
	}
	for _, source := range from {
		for _, table := range f.tables {
			pulls = append(pulls, Session{
				ID:    fmt.Sprintf("%d/%d/%s/%d", v.operation.ID, table, f.gain.Range, source),
				Epoch: v.epoch(), Table: table, Range: f.gain.Range, Source: source,
			})
		}
	}
	return pulls, true
}

// stuckReason tells the operator which range waits for nodes that are dead.
func (v *move) stuckReason(f *fetch) string {
	view := v.m.o.View
	var dead []string
	for _, id := range f.gain.Sources {
		if n := view.Topology().Node(id); n != nil && !view.Alive(id) {
			dead = append(dead, n.Internode.String())
		}
	}
	what := "of several keyspaces"
	if f.name != "" {
		what = "of keyspace " + f.name
	}
	return fmt.Sprintf("operation %d (%s): range %s %s waits: too few of the nodes that have it live, %s do not; start them, "+
		"or take the operation back: cqld ctl abort %d", v.operation.ID, v.operation.Kind, f.gain.Range, what, strings.Join(dead, ", "), v.operation.ID)
}

// others are living sources, those of this node's data center first; too few of them when not ok. A node that is no
// member any more has none: its operation was taken back, and Reconcile has not heard of it yet.
func (v *move) others(g ring.Gain) (from []ring.NodeID, ok bool) {
	view := v.m.o.View
	t := view.Topology()
	self := t.Node(view.Self())
	if self == nil {
		return nil, false
	}
	var far []ring.NodeID
	for _, id := range g.Sources {
		source := t.Node(id)
		switch {
		case id == g.From || source == nil || !view.Alive(id):
		case source.Datacenter == self.Datacenter:
			from = append(from, id)
		default:
			far = append(far, id)
		}
	}
	if len(g.Sources) == 0 || v.operation.Force && len(from)+len(far) == 0 {
		return nil, true // it is lost, as the operator knows, or a system keyspace's
	}
	enough := len(from) >= g.Local
	from = append(from[:min(len(from), max(g.Local, g.Total))], far...)
	enough = enough && len(from) >= g.Total
	return from[:min(len(from), max(g.Total, g.Local))], enough
}

// later tries again after a pause.
func (v *move) later() {
	v.m.o.Clock.After(movementRetry, func() {
		v.m.mu.Lock()
		v.todo, v.again = append(v.todo, v.again...), nil
		v.m.mu.Unlock()
		v.proceed()
	})
}

func (v *move) progress(session string, bytes int64) {
	v.m.mu.Lock()
	v.bytes[session] = bytes
	v.m.mu.Unlock()
}

// pulled is the event of a pull's end. One that failed is planned again: its source may be dead.
func (v *move) pulled(p Session, err error) {
	v.m.mu.Lock()
	v.running--
	if err != nil && !v.over {
		delete(v.begun, p.ID)
		f := &fetch{tables: []schema.StorageID{p.Table}}
		if t := v.m.o.View.Schema().TableByStorage(p.Table); t != nil && !slices.Contains(paxosTables(v.m.o.View.Schema()), p.Table) {
			f.name = t.Keyspace
		}
		for _, k := range v.replicationsOf(p.Table) {
			for _, g := range v.m.o.View.Topology().Gains(v.operation, k, v.m.o.View.Self()) {
				if g.Range == p.Range {
					f.gain = g
				}
			}
		}
		if f.gain.Node != 0 {
			v.again = append(v.again, f)
		}
	}
	over := v.over || v.m.mu.closed
	v.m.mu.Unlock()
	switch {
	case over:
	case err != nil:
		v.m.o.Note(err.Error())
		v.later()
	default:
		v.proceed()
	}
}

// replicationsOf are those that a table's ranges may have been gained under.
func (v *move) replicationsOf(id schema.StorageID) (out []ring.Replication) {
	catalog := v.m.o.View.Schema()
	if !slices.Contains(paxosTables(catalog), id) {
		if t := catalog.TableByStorage(id); t != nil {
			out = append(out, t.Replication)
		}
		return out
	}
	for _, name := range catalog.KeyspaceNames() {
		if r := catalog.Keyspace(name).Replication; r.Class != ring.Local {
			out = append(out, r)
		}
	}
	return out
}

// tell says that all is here, until the cluster has heard it.
func (v *move) tell() {
	tell := v.m.o.Log.StartStreamed
	if v.compare {
		tell = v.m.o.Log.StartCompared
	} else {
		v.m.o.Note(fmt.Sprintf("operation %d (%s): this node has all its ranges", v.operation.ID, v.operation.Kind))
	}
	tell(v.operation.ID, func(err error) {
		v.m.mu.Lock()
		again := err != nil && !v.over && !v.m.mu.closed
		if again {
			v.told = false
		}
		v.m.mu.Unlock()
		if again {
			v.later()
		}
	})
}

// forget removes the sessions of an operation that has ended.
func (v *move) forget() {
	for _, s := range v.sessions {
		if err := v.m.o.Streams.Forget(s); err != nil {
			v.m.o.Note(fmt.Sprintf("the record of stream %s stays: %v", s, err))
		}
	}
}

// heldBy are the ranges of a placement that a node holds, in token order.
func heldBy(p *ring.Placement, id ring.NodeID) (out []ring.Range) {
	for _, r := range p.Ranges(ring.FullRange()) {
		if r.Replicas.Contains(id) {
			out = append(out, r.Range)
		}
	}
	return out
}

// gaps are the ranges between those held, in token order; none of either wraps.
func gaps(held []ring.Range) (out []ring.Range) {
	slices.SortFunc(held, func(a, b ring.Range) int {
		switch {
		case a.Start < b.Start:
			return -1
		case a.Start > b.Start:
			return 1
		}
		return 0
	})
	at := ring.MinToken
	for _, r := range held {
		if r.Start > at {
			out = append(out, ring.Range{Start: at, End: r.Start})
		}
		if r.End == ring.MinToken {
			return out // up to the end
		}
		at = max(at, r.End)
	}
	return append(out, ring.Range{Start: at, End: ring.MinToken})
}

// MovementStatus is how far an operation is on this node.
type MovementStatus struct {
	Operation    *ring.Operation
	Ranges, Left int
	Bytes        int64
}

// Status is what this node fetches at the moment, by operation.
func (m *Movements) Status() (out []MovementStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range m.mu.moves {
		s := MovementStatus{Operation: v.operation, Ranges: v.total, Left: len(v.todo)}
		for _, n := range v.bytes {
			s.Bytes += n
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b MovementStatus) int { return int(int64(a.Operation.ID) - int64(b.Operation.ID)) })
	return out
}
