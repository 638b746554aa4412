package rebalance

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/invariant"
	"cqld/replica"
	"cqld/ring"
	"cqld/schema"
)

// OperationLog is the metadata log to which Movements reports progress. done is called once.
type OperationLog interface {
	StartStreamed(operation uint64, short []ring.Shortfall, done func(error))
	StartCompared(operation uint64, short []ring.Shortfall, done func(error))
	StartHanded(operation uint64, done func(error))
}

// MovementOptions are the dependencies of Movements. All are required except Note, LeafBytes and the test switches.
type MovementOptions struct {
	View    coordinator.View
	Log     OperationLog // the cluster
	Streams *Streams
	Local   *replica.Local // whose fence sessions respect
	Hashes  Hashes
	Clock   env.Clock
	// HandOver transfers what this node stores for others, such as logged batches, before it leaves. done is called
	// once; on an error the node stays.
	HandOver func(done func(error))
	// Run runs work that waits for the disk; see StreamOptions.Run.
	Run func(func())
	// Note reports progress to the operator; nil discards it.
	Note func(message string)
	// LeafBytes is the size of the parts that are compared, and streamed again when they differ; zero means 256 KiB.
	LeafBytes int64
	// DeadAfter is how long a removal waits for enough sources of a range before it takes the live ones; zero means 30
	// s.
	DeadAfter time.Duration
	// NoCompare, set by tests only, ends operations without a comparison.
	NoCompare bool
	// NoPaxosStreams, set by tests only, streams ranges without their Paxos state.
	NoPaxosStreams bool
	// AllStates, set by tests only, streams the Paxos states of all keyspaces with each gained range.
	AllStates bool
}

// Movements follows the operations of the ring on one node. While an operation streams, it fetches the ranges that this
// node gains; before the operation ends, it compares them with their sources. Drops removes the ranges that this node
// lost. It is safe for concurrent use.
//
//	Streaming: for each range and table: stream from the node that loses it, or from so many of the nodes that keep it
//	           that every quorum is met ── all received ──▶ OperationLog.StartStreamed
//	Known:     compare each range and table with the same sources, and stream the parts that differ
//	           ── all compared ──▶ OperationLog.StartCompared
//	leaving:   hand over what this node stores for others ──▶ OperationLog.StartHanded
type Movements struct {
	o  MovementOptions
	mu struct {
		sync.Mutex
		movements map[uint64]*movement
		handing   uint64 // the operation by which this node leaves, once the hand-over began
		// A movement of the second phase must know that the first one was partial: its comparison takes the same
		// sources.
		partial []uint64 // operations in progress that streamed ranges from too few sources
		epoch   uint64   // of the last topology
		closed  bool
	}
}

// NewMovements returns the movements of a node. The owner calls Reconcile after the node has started.
func NewMovements(o MovementOptions) *Movements {
	m := &Movements{o: o}
	if m.o.Note == nil {
		m.o.Note = func(string) {}
	}
	m.mu.movements = map[uint64]*movement{}
	m.o.LeafBytes = cmp.Or(m.o.LeafBytes, compareLeafBytes)
	m.o.DeadAfter = cmp.Or(m.o.DeadAfter, deadAfter)
	return m
}

// gainedRange is one range that this node gains, and tables of one replication.
//
// A session of it copies one table from one source.
type gainedRange struct {
	gain   ring.Gain
	tables []schema.StorageID
	// keyspaces are the tables' keyspaces or, if it is a range of system.paxos, the states'. They have the same
	// replication.
	keyspaces []string
}

// required reports whether the operation waits for the range until enough sources are alive. It does not for system
// keyspaces.
func (f *gainedRange) required() bool {
	return slices.ContainsFunc(f.keyspaces, func(name string) bool { return !schema.IsReplicatedSystem(name) })
}

// movement is this node's part of one operation. Movements.mu guards it.
type movement struct {
	m         *Movements
	operation *ring.Operation
	compare   bool            // ranges that were streamed before
	queued    []*gainedRange  // not started
	retries   []*gainedRange  // failed; queued again after a pause
	started   map[string]bool // sessions in progress, or completed
	waiting   []Session       // of the range that was started last
	running   int
	total     int // ranges
	bytes     map[string]int64
	sessions  []string
	reported  bool
	ended     bool
	stuck     int // consecutive attempts with too few live sources
	// partial means that too few sources were alive for so long that the live ones must do. short contains the ranges
	// that were fetched like that, by keyspace.
	partial bool
	short   map[string]map[ring.Range]bool
}

// Reconcile starts and ends movements so that they match a confirmed topology. The owner calls it after every change,
// from one goroutine at a time, with topologies in the order of their epochs.
func (m *Movements) Reconcile(t *ring.Topology) {
	self := m.o.View.Self()
	if self == 0 {
		return
	}
	ended, begun, open := m.follow(t, self)
	if !open {
		return
	}
	// Ended movements first: their sessions are cancelled before the next phase starts sessions for the same ranges.
	for _, v := range ended {
		v.forgetSessions()
	}
	for _, v := range begun {
		v.begin(t)
	}
	m.handOver(t, self)
}

// follow makes the movements match a topology. It returns the ended and the new movements, by operation.
func (m *Movements) follow(t *ring.Topology, self ring.NodeID) (ended, begun []*movement, open bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.closed {
		return nil, nil, false
	}
	invariant.Check(t.Epoch() >= m.mu.epoch, "rebalance: the ring went back")
	m.mu.epoch = t.Epoch()
	var partial []uint64 // operations that proceed to the comparison with what is alive
	for id, v := range m.mu.movements {
		// The operation has ended, was aborted, or has reached its next phase, which is a new movement.
		if o := t.Operation(id); o == nil || v.compare != (o.Phase == ring.Switching) {
			// Sessions under way notice it when they end.
			v.ended = true
			if o != nil && v.partial {
				partial = append(partial, id)
			}
			delete(m.mu.movements, id)
			ended = append(ended, v)
		}
	}
	m.mu.partial = slices.DeleteFunc(append(m.mu.partial, partial...),
		func(id uint64) bool { return t.Operation(id) == nil })
	for _, o := range t.Operations() {
		// Also after a restart: the movement begins again, and its sessions continue at their stored positions.
		if m.mu.movements[o.ID] == nil && m.concerns(o, self) {
			v := &movement{m: m, operation: o, compare: o.Known, bytes: map[string]int64{}, started: map[string]bool{},
				partial: slices.Contains(m.mu.partial, o.ID), short: map[string]map[ring.Range]bool{}}
			m.mu.movements[o.ID] = v
			begun = append(begun, v)
		}
	}
	slices.SortFunc(ended, func(a, b *movement) int { return int(int64(a.operation.ID) - int64(b.operation.ID)) })
	return ended, begun, true
}

// concerns reports whether an operation requires something of this node in its present phase.
func (m *Movements) concerns(o *ring.Operation, self ring.NodeID) bool {
	if !slices.Contains(o.Gaining, self) {
		return false
	}
	return o.Phase == ring.Streaming && !slices.Contains(o.Streamed, self) || o.Known &&
		!slices.Contains(o.Compared, self)
}

// Close stops all movements. The next process of the node continues them.
func (m *Movements) Close() {
	m.mu.Lock()
	m.mu.closed = true
	m.mu.Unlock()
}

// begin queues the ranges that this node gains.
func (v *movement) begin(t *ring.Topology) {
	if !v.compare || !v.m.o.NoCompare {
		v.queued = v.gained(t)
	}
	v.total = len(v.queued)
	v.m.o.Note(fmt.Sprintf("operation %d (%s): this node %s %d ranges", v.operation.ID, v.operation.Kind, v.verb(),
		v.total))
	v.proceed()
}

// gained returns the ranges that this node gains. Unless they are compared, it adds those of Paxos state: votes of both
// sides count, so the new replicas need the votes of the old ones.
func (v *movement) gained(t *ring.Topology) (all []*gainedRange) {
	catalog, self := v.m.o.View.Schema(), v.m.o.View.Self()
	var states [][]string // keyspaces of the same replication
	for _, name := range catalog.KeyspaceNames() {
		k := catalog.Keyspace(name)
		tables := tablesOf(k)
		if k.Replication.Class == ring.Local || len(tables) == 0 {
			continue
		}
		for _, g := range t.Gains(v.operation, k.Replication, self) {
			all = append(all, &gainedRange{gain: g, tables: tables, keyspaces: []string{name}})
		}
		// States of keyspaces with one replication move together: one session streams them all.
		same := slices.IndexFunc(states, func(of []string) bool {
			return catalog.Keyspace(of[0]).Replication.Equal(k.Replication)
		})
		if same < 0 {
			same, states = len(states), append(states, nil)
		}
		states[same] = append(states[same], name)
	}
	// States were streamed in the first phase. From the switch on, the node votes itself.
	if v.compare || v.m.o.NoPaxosStreams {
		return all
	}
	for _, keyspaces := range states {
		for _, g := range t.Gains(v.operation, catalog.Keyspace(keyspaces[0]).Replication, self) {
			all = append(all, &gainedRange{gain: g, tables: []schema.StorageID{schema.PaxosTable},
				keyspaces: keyspaces})
		}
	}
	return all
}

// verb describes the phase in notes to the operator.
func (v *movement) verb() string {
	if v.compare {
		return "compares"
	}
	return "fetches"
}

// epoch returns the epoch that sources must have applied.
func (v *movement) epoch() uint64 {
	if v.compare {
		return v.operation.Switched
	}
	return v.operation.ID
}

// ahead returns how many sessions run at a time.
func (v *movement) ahead() int {
	if v.compare {
		return comparesAhead
	}
	return sessionsAhead
}

// tablesOf returns the tables of a keyspace, in the order of their names. Views store no rows of their own (ADR 38).
func tablesOf(k *schema.Keyspace) (ids []schema.StorageID) {
	for _, name := range k.TableNames() {
		ids = append(ids, k.Table(name).StorageID)
	}
	return ids
}

// proceed starts sessions while ahead allows, and reports to the log when none is left.
func (v *movement) proceed() {
	for {
		v.m.mu.Lock()
		if v.ended || v.m.mu.closed || v.running >= v.ahead() {
			v.m.mu.Unlock()
			return
		}
		if len(v.waiting) == 0 && len(v.queued) > 0 {
			sessions, ok := v.plan(v.queued[0])
			if !ok {
				f := v.queued[0]
				v.stuck++
				report := v.stuck == stuckReported
				// stuck counts pauses of movementRetry, so this is the time without enough live sources.
				v.partial = v.mayBePartial() && v.stuck >= int(v.m.o.DeadAfter/movementRetry)
				partial := v.partial
				v.m.mu.Unlock()
				switch {
				case partial:
					v.m.o.Note(v.partialReason(f))
					continue
				case report:
					v.m.o.Note(v.stuckReason(f))
				}
				// Nodes may come up, or a later topology may end the movement.
				v.retryLater()
				return
			}
			v.noteShortLocked(v.queued[0])
			v.waiting, v.queued, v.stuck = sessions, v.queued[1:], 0
			v.m.mu.Unlock()
			continue
		}
		if len(v.waiting) == 0 {
			// Failed ranges come back after their pause.
			finished := v.running == 0 && len(v.retries) == 0 && !v.reported
			v.reported = v.reported || finished
			v.m.mu.Unlock()
			if finished {
				v.report()
			}
			return
		}
		p := v.waiting[0]
		v.waiting = v.waiting[1:]
		if v.started[p.ID] {
			// A range is planned again after the failure of one of its sessions. Without this, each of the others would
			// fail, because it is in progress, and the range would be planned again for each of those failures.
			v.m.mu.Unlock()
			continue
		}
		v.started[p.ID] = true
		v.running++
		v.m.mu.Unlock()
		if v.compare {
			v.compareWith(p)
			continue
		}
		v.startSession(p, func(err error) { v.sessionEnded(p, err) })
	}
}

// startSession starts a session, unless its range is fenced.
func (v *movement) startSession(p Session, done func(error)) {
	v.m.mu.Lock()
	v.sessions = append(v.sessions, p.ID)
	v.m.mu.Unlock()
	if v.m.fenced(p) {
		done(v.m.o.Streams.failure(p, replica.ErrFenced))
		return
	}
	v.m.o.Streams.Start(p, func(bytes int64) { v.progress(p.ID, bytes) }, done)
}

// fenced reports whether the range of a session is being dropped.
func (m *Movements) fenced(p Session) bool {
	tables := []schema.StorageID{p.Table}
	for _, name := range p.Keyspaces {
		if k := m.o.View.Schema().Keyspace(name); k != nil {
			tables = append(tables, tablesOf(k)...)
		}
	}
	return slices.ContainsFunc(tables, func(id schema.StorageID) bool { return m.o.Local.Fenced(id, p.Range) })
}

// plan chooses the sources of a range: the node that loses it, if it is alive, because this node's copy replaces that
// one in every quorum; otherwise so many of the others that at least one of them has each write that a quorum
// acknowledged. It reports false when too few of them are alive.
func (v *movement) plan(f *gainedRange) (sessions []Session, ok bool) {
	from := []ring.NodeID{f.gain.From}
	if f.gain.From == 0 || !v.m.o.View.Alive(f.gain.From) {
		if from, ok = v.sources(f.gain); !ok && f.required() && !v.partial {
			return nil, false
		}
	}
	for _, source := range from {
		for _, table := range f.tables {
			// The ID is the same in every process, so that a restarted node continues the session at its stored
			// position.
			p := Session{
				ID:    fmt.Sprintf("%d/%d/%s/%d", v.operation.ID, table, f.gain.Range, source),
				Epoch: v.epoch(), Table: table, Range: f.gain.Range, Source: source,
			}
			if table == schema.PaxosTable {
				p.ID, p.Keyspaces = p.ID+"/"+f.keyspaces[0], f.keyspaces
				if v.m.o.AllStates {
					p.Keyspaces = v.m.o.View.Schema().KeyspaceNames()
				}
			}
			sessions = append(sessions, p)
		}
	}
	return sessions, true
}

// sources returns the live sources of a range, those of this node's data center first, and false when they are too few.
// A node that is no longer a member has none: its operation was aborted, and Reconcile has not received that topology
// yet.
func (v *movement) sources(g ring.Gain) (from []ring.NodeID, ok bool) {
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
		// The losing node is used alone or not at all.
		case id == g.From || source == nil || !view.Alive(id):
		case source.Datacenter == self.Datacenter:
			from = append(from, id)
		default:
			far = append(far, id)
		}
	}
	if len(g.Sources) == 0 || v.operation.Force && len(from)+len(far) == 0 {
		return nil, true // the operator accepted the loss, or it is a system keyspace
	}
	// Quorums of the data center need Local sources in it; quorums of the ring need Total anywhere.
	enough := len(from) >= g.Local
	from = append(from[:min(len(from), max(g.Local, g.Total))], far...)
	enough = enough && len(from) >= g.Total
	return from[:min(len(from), max(g.Total, g.Local))], enough
}

// retryLater queues failed ranges again after a pause.
func (v *movement) retryLater() {
	v.m.o.Clock.After(movementRetry, func() {
		v.m.mu.Lock()
		v.queued, v.retries = append(v.queued, v.retries...), nil
		v.m.mu.Unlock()
		v.proceed()
	})
}

func (v *movement) progress(session string, bytes int64) {
	v.m.mu.Lock()
	v.bytes[session] = bytes
	v.m.mu.Unlock()
}

// sessionEnded is the event of a session's end. After a failure its range is planned again: the source may be dead.
func (v *movement) sessionEnded(p Session, err error) {
	switch over := v.countEnd(p, err); {
	case over:
	case err != nil:
		v.m.o.Note(err.Error())
		v.retryLater()
	default:
		v.proceed()
	}
}

// countEnd counts the end of a session. It reports whether the movement is over.
func (v *movement) countEnd(p Session, err error) (over bool) {
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	invariant.Check(v.running > 0 && v.started[p.ID], "rebalance: a session that is not under way has ended")
	v.running--
	// Only the failed table of the range is planned again.
	if err != nil && !v.ended {
		delete(v.started, p.ID)
		if f := v.gainOf(p); f != nil {
			v.retries = append(v.retries, f)
		}
	}
	return v.ended || v.m.mu.closed
}

// gainOf returns the range of a session in the present topology, or nil if this node no longer gains it.
func (v *movement) gainOf(p Session) *gainedRange {
	catalog := v.m.o.View.Schema()
	// The ring or the schema may have changed since the session was planned, so its gain is looked up again.
	keyspaces := p.Keyspaces
	if t := catalog.TableByStorage(p.Table); p.Table != schema.PaxosTable && t != nil {
		keyspaces = []string{t.Keyspace}
	}
	keyspaces = slices.DeleteFunc(slices.Clone(keyspaces),
		func(name string) bool { return catalog.Keyspace(name) == nil }) // dropped
	if len(keyspaces) == 0 {
		return nil
	}
	for _, g := range v.m.o.View.Topology().Gains(v.operation, catalog.Keyspace(keyspaces[0]).Replication,
		v.m.o.View.Self()) {
		// With other bounds, the range is part of the ranges that a later topology brings.
		if g.Range == p.Range {
			return &gainedRange{gain: g, tables: []schema.StorageID{p.Table}, keyspaces: keyspaces}
		}
	}
	return nil
}

// report reports to the log that all ranges are here. It retries until the log has taken it.
func (v *movement) report() {
	start := v.m.o.Log.StartStreamed
	if v.compare {
		start = v.m.o.Log.StartCompared
	} else {
		v.m.o.Note(fmt.Sprintf("operation %d (%s): this node has all its ranges", v.operation.ID, v.operation.Kind))
	}
	v.m.mu.Lock()
	// The ranges that were short in this phase; the log keeps the larger number of both phases.
	short := v.shortfallsLocked()
	v.m.mu.Unlock()
	start(v.operation.ID, short, func(err error) {
		v.m.mu.Lock()
		retry := err != nil && !v.ended && !v.m.mu.closed
		if retry {
			v.reported = false
		}
		v.m.mu.Unlock()
		if retry {
			v.retryLater()
		}
	})
}

// forgetSessions removes the records of the sessions of an operation that has ended.
func (v *movement) forgetSessions() {
	for _, s := range v.sessions {
		if err := v.m.o.Streams.Forget(s); err != nil {
			v.m.o.Note(fmt.Sprintf("the record of stream %s was not removed: %v", s, err))
		}
	}
}

// heldBy returns the ranges of a placement that a node holds, in token order.
func heldBy(p *ring.Placement, id ring.NodeID) (out []ring.Range) {
	for _, r := range p.Ranges(ring.FullRange()) {
		if r.Replicas.Contains(id) {
			out = append(out, r.Range)
		}
	}
	return out
}

// gaps returns the ranges between those held, in token order. None of the ranges wraps.
func gaps(held []ring.Range) (out []ring.Range) {
	// Ranges of several keyspaces overlap and are not in order.
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
			return checkedGaps(held, out) // the last range ends at the end of the ring
		}
		// A range may lie within an earlier one.
		at = max(at, r.End)
	}
	return checkedGaps(held, append(out, ring.Range{Start: at, End: ring.MinToken}))
}

// MovementStatus is the progress of one operation on this node.
type MovementStatus struct {
	Operation *ring.Operation
	// Comparing reports that the ranges were streamed before, and are compared with their sources now.
	Comparing bool
	// Ranges are those that this node gains, and Left those that are not done in this phase. Ranges under way count as
	// one.
	Ranges, Left int
	Bytes        int64
}

// Status returns the progress of all operations under way, by operation.
func (m *Movements) Status() (out []MovementStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range m.mu.movements {
		s := MovementStatus{Operation: v.operation, Comparing: v.compare, Ranges: v.total, Left: len(v.queued) +
			len(v.retries)}
		// The ranges under way are in neither list.
		if v.running > 0 || len(v.waiting) > 0 {
			s.Left = min(s.Left+1, s.Ranges)
		}
		for _, n := range v.bytes {
			s.Bytes += n
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b MovementStatus) int { return int(int64(a.Operation.ID) - int64(b.Operation.ID)) })
	return out
}
