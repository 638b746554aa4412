package acceptor

import (
	"bytes"
	"cmp"
	"errors"
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/messaging"
	"cqld/paxos/ballot"
	"cqld/paxos/contention"
	"cqld/replica"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// Repairs of a range purge the Paxos state of its partitions. docs/adr/0015 proves that this is safe. It requires three
// operations of an acceptor:
//
//  1. Learn the low bound. From then on the acceptor accepts nothing up to it, and everything it accepted before is in
//     its rows.
//  2. List unsettled proposals: those accepted up to the low bound, or resting on a ballot before it, that the acceptor
//     does not know to be decided or superseded.
//  3. Purge rows without content after the low bound and without unsettled proposals.
//
// A row is purged by a deletion up to the low bound, which storage removes together with the row. Rows of dropped
// tables are removed when the tables with state are determined.

const (
	// stepRows bounds the states in one step: 512 of a batch's 100 KB would be 50 MB, but a page ends at 1 MiB.
	stepRows = 512
	// scanIntervalDefault is how long the set of tables with state is cached: determining it reads all states.
	scanIntervalDefault = time.Hour
	// droppedAfter is the age (µs) at which the state of an unknown table is attributed to a dropped table. State
	// that is younger may belong to a table whose creation this node does not know yet.
	droppedAfter = int64(time.Hour / time.Microsecond)
)

var (
	errLowBoundUnknown   = errors.New("paxos: this node does not know the Paxos low bound yet")
	errRingChangePending = errors.New("paxos: a ring change is pending")
	errQueueFull         = errors.New("paxos: too many requests are queued for a partition whose Paxos state is " +
		"being purged")
	errUnsettled = errors.New("paxos: a proposal up to the low bound is not decided; it was streamed to this node")
	errStreaming = errors.New("paxos: Paxos state is being streamed to this node")
)

// PurgeRequest asks a replica for one step over its Paxos state of a table, in a range that does not wrap.
type PurgeRequest struct {
	// Epoch and Moved identify the topology that the repair uses. A replica that knows a different ring refuses
	// with coordinator.NotReplica; a replica that knows of a pending ring change fails.
	Epoch, Moved uint64
	Table        schema.StorageID
	Tokens       ring.Range
	// LowBound is the table's low bound (µs). A replica that does not know it refuses. Before the first step, a replica
	// waits until all requests that it admitted before are in its state.
	LowBound int64
	// Forget purges the state up to the low bound, durably. In either case the step lists proposals that were accepted
	// up to the low bound, or that rest on a ballot before it, and that are not known to be decided; they are not
	// purged.
	Forget bool
	After  *row.PartitionKey // PurgeStep.Next of the previous step; nil in the first step
}

// PurgeStep is the result of one step.
type PurgeStep struct {
	Unsettled []row.PartitionKey
	Forgotten int               // number of purged states
	Next      *row.PartitionKey // nil at the end of the range
	Scanned   int64             // bytes
}

// PurgeOptions are the dependencies of a Purge. All are required except Look and Confirm.
type PurgeOptions struct {
	Acceptor  *Acceptor
	Engine    interface{ Drain() error }
	Transport messaging.Transport
	Clock     env.Clock
	// Run runs work that waits for the disk: in a separate goroutine in production, or synchronously in simulation.
	Run func(func())
	// Streaming reports whether rows of a table are being streamed to this node.
	Streaming func(schema.StorageID) bool
	// Look is how long the set of tables with Paxos state is cached; zero means an hour.
	Look time.Duration
	// Confirm calls done when the metadata include every change that was committed before the call. nil means that
	// states of dropped tables are kept.
	Confirm func(done func())
}

// Purge lists and removes Paxos state for repairs, on this node and, by messages, on the other nodes.
type Purge struct {
	o           PurgeOptions
	conditional conditionalTables
}

// NewPurge registers the handler of VerbPaxosPurge. It is called before the transport starts.
func NewPurge(o PurgeOptions) *Purge {
	o.Look = cmp.Or(o.Look, scanIntervalDefault)
	r := &Purge{o: o}
	r.serve()
	return r
}

// step executes a step over the state of a table. run runs the part that reads the disk.
func (r *Purge) step(req *PurgeRequest, run func(func()), done func(PurgeStep, error)) {
	a := r.o.Acceptor
	refuse := func(err error) { done(PurgeStep{}, err) }
	t := a.view.Topology()
	table := a.view.Schema().TableByStorage(req.Table)
	switch {
	case table == nil:
		refuse(replica.UnknownTable(req.Table))
	// The repair has asked the replicas of its ring. In a different ring, this node may lack states of the range.
	case t.Moved() != req.Moved:
		refuse(&coordinator.NotReplica{Epoch: t.Epoch()})
	// A stream of a pending change could bring a proposal that no replica has listed.
	case len(t.Operations()) > 0:
		refuse(failed(errRingChangePending))
	// Without the bound, this acceptor could still accept below it after the step.
	case a.view.PaxosFloor(req.Table) < req.LowBound:
		refuse(failed(errLowBoundUnknown))
	case r.o.Streaming(schema.PaxosTable):
		refuse(failed(errStreaming))
	default:
		run(func() {
			if req.After == nil && !req.Forget {
				// Requests that were admitted before this node knew the bound may have accepted below it without
				// having reached storage yet. Waiting in the first step suffices, because later requests are refused.
				a.replica.Settle()
				// Settle waits until the engine has the writes, Drain until reads find them.
				if err := r.o.Engine.Drain(); err != nil {
					refuse(replica.FromStorage(err))
					return
				}
			}
			a.stepPage(table, req, done)
		})
	}
}

// stepPage lists or purges the states of the next page.
func (a *Acceptor) stepPage(table *schema.Table, req *PurgeRequest, done func(PurgeStep, error)) {
	step := PurgeStep{}
	lowBound := ballot.Ballot{Micros: req.LowBound}
	var old []row.PartitionKey
	states := stateScan(req.Tokens, req.After, row.ExactRow(clusteringOf(table)), stepRows)
	err := a.statePage(&states, func(key row.PartitionKey, x *row.Row) error {
		s, err := a.columns.stateOf(x)
		switch {
		case err != nil:
			return err
		case len(x.Cells) == 0: // purged, but not yet removed by storage
		case s.unsettled(lowBound):
			step.Unsettled = append(step.Unsettled, key)
		// The keys are collected, and purge deletes each state as a step of its partition, because this page was read
		// outside the queues.
		case s.purgeable(lowBound):
			old = append(old, key)
		}
		return nil
	})
	if err != nil {
		done(PurgeStep{}, failed(err))
		return
	}
	step.Scanned = states.bytes
	if states.More() {
		// The limit on rows or bytes ended the page before the end of the range.
		step.Next = &states.At.Key
	}
	if !req.Forget {
		done(step, nil)
		return
	}
	a.purge(table, old, lowBound, func(forgotten int, err error) {
		step.Forgotten = forgotten
		done(step, err)
	})
}

// purgeable reports whether the state has content up to the low bound: either all its content, or a decision that
// later votes follow. Such a decision would restore deleted data after the tombstones are purged.
func (s *partitionState) purgeable(lowBound ballot.Ballot) bool {
	return !s.stored().After(lowBound) || s.commit.Ballot.Present() && !s.commit.Ballot.After(lowBound)
}

// unsettled reports whether the state has a proposal that is not known to be decided and that was accepted up to the
// low bound, or later but resting on a ballot before it: such a proposal may be void because of state that other
// replicas purge.
func (s *partitionState) unsettled(lowBound ballot.Ballot) bool {
	p := &s.accepted
	// An accepted proposal without an update changes nothing if it is completed, so it need not be settled.
	return len(p.Update) > 0 && (!p.Ballot.After(lowBound) || p.Previous.Present() && lowBound.After(p.Previous))
}

// purge deletes the states of partitions up to the low bound, serialized with the other steps of each, unless a
// proposal is unsettled. done is called once, with the number of deleted states and the joined errors.
func (a *Acceptor) purge(table *schema.Table, keys []row.PartitionKey, lowBound ballot.Ballot,
	done func(forgotten int, err error)) {
	var mu sync.Mutex
	// The count includes this loop, so that done is not called while the loop runs.
	left, forgotten := len(keys)+1, 0
	var first error
	end := func(n int, err error) {
		mu.Lock()
		left--
		forgotten += n
		first = errors.Join(first, err)
		// done is called without the lock.
		last := left == 0
		mu.Unlock()
		if last {
			done(forgotten, first)
		}
	}
	for _, key := range keys {
		partition := contention.Partition(table.StorageID, key)
		if !a.submit(partition, func() { a.purgeOne(partition, table, key, lowBound, end) }) {
			// The repair reports the error. It purges the rest, and the next repair finds this state.
			end(0, failed(errQueueFull))
		}
	}
	end(0, nil)
}

// purgeOne is purge for one partition, as a step of the partition.
func (a *Acceptor) purgeOne(partition string, table *schema.Table, key row.PartitionKey, lowBound ballot.Ballot,
	done func(int, error)) {
	answer := func(n int, err error) {
		a.release(partition)
		done(n, err)
	}
	a.withState(partition, 0, func(have cachedState) { a.purgeState(&have, partition, table, key, lowBound, answer) },
		func(err error) { answer(0, err) })
}

// purgeState is purgeOne with the cached state, or in a worker that reads the state.
func (a *Acceptor) purgeState(have *cachedState, partition string, table *schema.Table, key row.PartitionKey,
	lowBound ballot.Ballot, answer func(int, error)) {
	phase := a.replica.Enter()
	s, _, err := a.load(have, partition, table, key, false)
	// The list of the same page may be old: a stream may have brought a proposal since.
	if err == nil && s.unsettled(lowBound) {
		err = failed(errUnsettled)
	}
	if err != nil || !s.purgeable(lowBound) {
		a.replica.Leave(phase)
		answer(0, err)
		return
	}
	// Synced: tombstones are purged when all replicas have purged their state, which must not return after that.
	err = a.replica.Write([]*row.Mutation{stateDeletion(key, clusteringOf(table), lowBound.Micros)}, true,
		func(err error) {
			// The state is evicted even after a success, because the cached one contains the deleted content.
			a.evict(partition)
			if err != nil {
				answer(0, err)
				return
			}
			answer(1, nil)
		})
	a.replica.Leave(phase)
	if err != nil {
		answer(0, err)
	}
}

// stateDeletion returns the deletion of a state's content with ballots up to a time (µs).
func stateDeletion(key row.PartitionKey, clustering []byte, micros int64) *row.Mutation {
	r := row.NewRow()
	// The row is deleted, not its cells one by one: votes after the bound have later timestamps, and stay.
	r.Clustering, r.Deletion = clustering, row.Deletion{Timestamp: micros, LocalTime: micros / 1e6}
	m := new(row.Mutation)
	m.Reset(schema.PaxosTable, key)
	m.AddRow(r)
	return m
}

// conditionalTables contains the tables that have state.
type conditionalTables struct {
	sync.Mutex
	looked     bool
	at         time.Duration // monotonic time at which the set was determined
	generation uint64        // of the acceptors at that time
	found      map[schema.StorageID]bool
	looking    bool
	waiting    []func(found map[schema.StorageID]bool, err error) // callers that wait for the running scan
}

// Conditional reports to done whether this node has Paxos state of the table, or may have: it has received a Paxos
// request for it, or had state at the last scan. done is called exactly once, in the goroutine of PurgeOptions.Run. It
// implements repair.PaxosStates.
func (r *Purge) Conditional(table schema.StorageID, done func(bool, error)) {
	r.o.Run(func() {
		// The scan is at most an hour old and need not know a table whose first conditional change was later.
		if r.o.Acceptor.hasReceived(table) {
			done(true, nil)
			return
		}
		r.tablesWithState(func(found map[schema.StorageID]bool, err error) { done(found[table], err) })
	})
}

// tablesWithState calls done with the set of tables with state, from the cache if it is recent. The set must not be
// modified.
func (r *Purge) tablesWithState(done func(found map[schema.StorageID]bool, err error)) {
	k := &r.conditional
	now, generation := r.o.Clock.Monotonic(), r.o.Acceptor.generation.Load()
	k.Lock()
	// A stream brings states without a request, so the cache is of one generation.
	if found := k.found; k.looked && now-k.at < r.o.Look && generation == k.generation {
		k.Unlock()
		done(found, nil)
		return
	}
	// Repairs of several tables ask at the same time. One scan answers all of them.
	k.waiting = append(k.waiting, done)
	if k.looking {
		k.Unlock()
		return
	}
	k.looking = true
	k.Unlock()
	// Without the lock: the scan reads all states of this node.
	found, gone, err := r.o.Acceptor.scanTables(r.o.Clock.Now().UnixMicro())
	r.deleteDropped(gone)
	k.Lock()
	// The cached set gets the time and the generation from before the scan, which may have missed changes during it.
	k.found, k.looked, k.at, k.generation = found, err == nil, now, generation
	waiting := k.waiting
	k.waiting, k.looking = nil, false
	k.Unlock()
	for _, f := range waiting {
		f(found, err)
	}
}

// droppedState is the state of a partition of a table that this node does not know.
type droppedState struct {
	key        row.PartitionKey
	clustering []byte
	newest     int64 // µs
}

// droppedStatesMax bounds the states of unknown tables that one scan removes.
const droppedStatesMax = 4096

// deleteDropped deletes the states of tables that do not exist, after the catalog has been confirmed: the creation of
// an unknown table may not have reached this node yet.
func (r *Purge) deleteDropped(gone []droppedState) {
	if len(gone) == 0 || r.o.Confirm == nil {
		return
	}
	r.o.Confirm(func() {
		catalog := r.o.Acceptor.view.Schema()
		// The catalog is read again: after the confirmation, it may contain a table that the scan did not know.
		known := map[string]bool{}
		for _, id := range catalog.StorageIDs() {
			if t := catalog.TableByStorage(id); t != nil {
				known[string(clusteringOf(t))] = true
			}
		}
		r.o.Run(func() {
			for _, s := range gone {
				if !known[string(s.clustering)] { // the next scan finds those that are not removed now
					_ = r.o.Acceptor.replica.Write([]*row.Mutation{stateDeletion(s.key, s.clustering, s.newest)},
						false, func(error) {})
				}
			}
		})
	})
}

// scanTables scans all states: it returns the tables that have any, and the states of tables that this node does not
// know, at most droppedStatesMax of them. now is the wall time in µs.
func (a *Acceptor) scanTables(now int64) (found map[schema.StorageID]bool, gone []droppedState, err error) {
	catalog := a.view.Schema()
	// States name their table by the identifier in their clustering.
	tables := map[string]schema.StorageID{}
	for _, id := range catalog.StorageIDs() {
		if t := catalog.TableByStorage(id); t != nil {
			tables[string(clusteringOf(t))] = id
		}
	}
	found = map[schema.StorageID]bool{}
	states := stateScan(ring.FullRange(), nil, row.AllRows(), stepRows)
	for states.More() {
		err := a.statePage(&states, func(key row.PartitionKey, x *row.Row) error {
			id, ok := tables[string(x.Clustering)]
			newest := newestOf(x)
			switch {
			case newest == 0: // purged, but not yet removed by storage
			case ok:
				found[id] = true
			// The age is derived from the ballots, whose times are close to the proposers' wall clocks.
			case newest < now-droppedAfter && len(gone) < droppedStatesMax:
				gone = append(gone, droppedState{key, bytes.Clone(x.Clustering), newest})
			}
			return nil
		})
		if err != nil {
			return nil, nil, failed(err)
		}
	}
	return found, gone, nil
}

// newestOf returns the greatest timestamp (µs) of a state's cells.
func newestOf(r *row.Row) (newest int64) {
	for i := range r.Cells {
		newest = max(newest, r.Cells[i].Timestamp)
	}
	return newest
}
