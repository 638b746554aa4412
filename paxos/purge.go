package paxos

import (
	"bytes"
	"cmp"
	"errors"
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/messaging"
	"cqld/paxos/contention"
	"cqld/replica"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// Acceptors forget the state of partitions in a repair of their range. What makes that safe stands in docs/adr/0015;
// here it needs three things of an acceptor:
//
//	it knows the floor          from then on it takes nothing up to there, and all that it took before is in its rows
//	it tells what is unsettled  what it has accepted up to there, or after something before there, and does not know to
//	                            be decided, or superseded
//	it forgets                  rows with nothing after the floor, and nothing unsettled
//
// A row goes by a deletion up to the floor, which storage sweeps away with it. Rows of tables that are gone go with
// the look at which tables have any.

const (
	// paxosStepRows is how many states one step looks at: 512 of a batch's 100 KB are 50 MB, but a page ends at a MiB.
	paxosStepRows = 512
	// paxosLookDefault is how long it is known which tables have state: looking reads all of it.
	paxosLookDefault = time.Hour
	// paxosGoneAfter is how old (µs) the state of a table must be that this node does not know, to be that of one that
	// was dropped, and not of one of which it has not heard yet.
	paxosGoneAfter = int64(time.Hour / time.Microsecond)
)

var (
	errFloorUnknown = errors.New("paxos: the Paxos floor has not been heard of yet")
	errRingMoves    = errors.New("paxos: the ring is about to change")
	errPaxosCrowded = errors.New("paxos: too many wait for a partition whose Paxos state is to be forgotten")
	errPaxosPulled  = errors.New("paxos: Paxos state is on its way to this node")
)

// PurgeRequest asks a replica for one step over its Paxos state of a table, in a range that does not wrap.
type PurgeRequest struct {
	// Epoch and Moved are those of the topology that the repair goes by. A replica that knows of another ring refuses
	// with coordinator.NotReplica, and fails as long as the ring is about to change.
	Epoch, Moved uint64
	Table        schema.StorageID
	Tokens       ring.Range
	// LowBound is the table's (µs). A replica that has not heard of it refuses; before the first step it waits until all
	// that it admitted before is in its state.
	LowBound int64
	// Forget removes the state up to the low bound, on disk; else what was accepted up to there, or resting on a ballot
	// before there, is listed when it is not known to be decided.
	Forget bool
	After  *row.PartitionKey // PurgeStep.Next of the step before; nil at first
}

// PurgeStep is what one step found.
type PurgeStep struct {
	Unsettled []row.PartitionKey
	Forgotten int               // states
	Next      *row.PartitionKey // nil when the range is done
	Scanned   int64             // bytes
}

// PurgeOptions are the dependencies of a Purge. All are required except Look and Confirm.
type PurgeOptions struct {
	Acceptor  *Acceptor
	Engine    interface{ Drain() error }
	Transport messaging.Transport
	Clock     env.Clock
	// Run runs work that waits for the disk: in a goroutine of its own, or at once in simulation.
	Run func(func())
	// Streaming reports whether rows of a table are being streamed to this node.
	Streaming func(schema.StorageID) bool
	// Look is how long the set of tables with Paxos state stays known; zero means an hour.
	Look time.Duration
	// Confirm calls done when the metadata include every change that was committed before the call. nil keeps the states
	// of dropped tables.
	Confirm func(done func())
}

// Purge lists and removes Paxos state for repairs, on this node and, by messages, on the other nodes.
type Purge struct {
	o           PurgeOptions
	conditional conditionalTables
}

// NewPurge registers the handler of VerbPaxosPurge. It is called before the transport starts.
func NewPurge(o PurgeOptions) *Purge {
	o.Look = cmp.Or(o.Look, paxosLookDefault)
	r := &Purge{o: o}
	r.serve()
	return r
}

// step takes a step over the state of a table. run does what reads the disk.
func (r *Purge) step(req *PurgeRequest, run func(func()), done func(PurgeStep, error)) {
	a := r.o.Acceptor
	refuse := func(err error) { done(PurgeStep{}, err) }
	t := a.view.Topology()
	table := a.view.Schema().TableByStorage(req.Table)
	switch {
	case table == nil:
		refuse(replica.UnknownTable(req.Table))
	case t.Moved() != req.Moved:
		refuse(&coordinator.NotReplica{Epoch: t.Epoch()})
	case len(t.Operations()) > 0:
		refuse(failed(errRingMoves))
	case a.view.PaxosFloor(req.Table) < req.LowBound:
		refuse(failed(errFloorUnknown))
	case r.o.Streaming(schema.PaxosTable):
		refuse(failed(errPaxosPulled))
	default:
		run(func() {
			if req.After == nil && !req.Forget {
				a.replica.Settle()
				if err := r.o.Engine.Drain(); err != nil {
					refuse(replica.FromStorage(err))
					return
				}
			}
			a.paxosPage(table, req, done)
		})
	}
}

// paxosPage lists or forgets the states of the next page.
func (a *Acceptor) paxosPage(table *schema.Table, req *PurgeRequest, done func(PurgeStep, error)) {
	cmd := row.ReadCommand{
		Table: schema.PaxosTable, Range: row.KeyRange{Tokens: req.Tokens, After: req.After},
		Slices: []row.Slice{row.ExactRow(clusteringOf(table))}, Limits: row.Limits{Rows: paxosStepRows},
	}
	page, err := a.replica.ReadPageWhole(&cmd)
	if err != nil {
		done(PurgeStep{}, failed(err))
		return
	}
	step := PurgeStep{Scanned: int64(len(page))}
	floor := Ballot{Micros: req.LowBound}
	var old []row.PartitionKey
	var p row.PageReader
	var x row.Row
	for p.Reset(page); p.NextPartition(); {
		key := row.PartitionKey{Token: p.Key.Token, Bytes: bytes.Clone(p.Key.Bytes)}
		step.Next = &key
		for p.NextRow(&x) {
			s, err := a.stateOf(&x)
			switch {
			case err != nil:
				done(PurgeStep{}, failed(err))
				return
			case len(x.Cells) == 0: // forgotten, and not swept yet
			case s.unsettled(floor):
				step.Unsettled = append(step.Unsettled, key)
			case s.old(floor):
				old = append(old, key)
			}
		}
	}
	if err := p.Err(); err != nil {
		done(PurgeStep{}, failed(err))
		return
	}
	if !p.More() {
		step.Next = nil
	}
	if !req.Forget {
		done(step, nil)
		return
	}
	a.forget(table, old, floor, func(forgotten int, err error) {
		step.Unsettled, step.Forgotten = nil, forgotten
		done(step, err)
	})
}

// old says whether the state has something up to the floor to forget: all of it, or a decision besides later votes,
// which would bring back what was deleted since when tombstones have gone.
func (s *acceptorState) old(floor Ballot) bool {
	return !s.stored().After(floor) || s.commit.Ballot.Present() && !s.commit.Ballot.After(floor)
}

// unsettled says whether the state has something accepted up to the floor that is not known to be decided; or later,
// but resting on a ballot before the floor: it may be void for something that others would forget.
func (s *acceptorState) unsettled(floor Ballot) bool {
	p := &s.accepted
	return len(p.Update) > 0 && (!p.Ballot.After(floor) || p.Previous.Present() && floor.After(p.Previous))
}

// forget removes the states of partitions up to the floor, each when it is its turn, unless something is unsettled.
func (a *Acceptor) forget(table *schema.Table, keys []row.PartitionKey, floor Ballot, done func(forgotten int, err error)) {
	var mu sync.Mutex
	left, forgotten := len(keys)+1, 0
	var first error
	end := func(n int, err error) {
		mu.Lock()
		left--
		forgotten += n
		first = errors.Join(first, err)
		last := left == 0
		mu.Unlock()
		if last {
			done(forgotten, first)
		}
	}
	for _, key := range keys {
		line := contention.Line(table.StorageID, key)
		if !a.enter(line, func() { a.forgetOne(line, table, key, floor, end) }) {
			end(0, failed(errPaxosCrowded))
		}
	}
	end(0, nil)
}

// forgetOne is forget of one partition, when it is its turn.
func (a *Acceptor) forgetOne(line string, table *schema.Table, key row.PartitionKey, floor Ballot, done func(int, error)) {
	answer := func(n int, err error) {
		a.leave(line)
		done(n, err)
	}
	a.withState(line, 0, func(have remembered) { a.forgetState(&have, line, table, key, floor, answer) }, func(err error) { answer(0, err) })
}

// forgetState is forgetOne with the state, or where it may be read.
func (a *Acceptor) forgetState(have *remembered, line string, table *schema.Table, key row.PartitionKey, floor Ballot, answer func(int, error)) {
	phase := a.replica.Enter()
	s, _, err := a.known(have, line, table, key, false)
	if err != nil || !s.old(floor) || s.unsettled(floor) {
		a.replica.Leave(phase)
		answer(0, err)
		return
	}
	// On disk: tombstones go when all replicas have forgotten, and it must not come back after them.
	err = a.replica.Write([]*row.Mutation{paxosDeletion(key, clusteringOf(table), floor.Micros)}, true, func(err error) {
		a.doubt(line)
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

// paxosDeletion deletes a state as far as it is of ballots up to a time (µs).
func paxosDeletion(key row.PartitionKey, clustering []byte, micros int64) *row.Mutation {
	r := row.NewRow()
	r.Clustering, r.Deletion = clustering, row.Deletion{Timestamp: micros, LocalTime: micros / 1e6}
	m := new(row.Mutation)
	m.Reset(schema.PaxosTable, key)
	m.AddRow(r)
	return m
}

// conditionalTables are the tables of which there is state.
type conditionalTables struct {
	sync.Mutex
	looked     bool
	at         time.Duration // monotonic: when that was looked for
	generation uint64        // of the acceptors, then
	found      map[schema.StorageID]bool
	looking    bool
	waiting    []func(found map[schema.StorageID]bool, err error) // for who looks
}

// Conditional implements repair.PaxosStates
func (r *Purge) Conditional(table schema.StorageID, done func(bool, error)) {
	r.o.Run(func() {
		if r.o.Acceptor.met(table) {
			done(true, nil)
			return
		}
		r.look(func(found map[schema.StorageID]bool, err error) { done(found[table], err) })
	})
}

// look tells which tables have state, as far as is known.
func (r *Purge) look(done func(found map[schema.StorageID]bool, err error)) {
	k := &r.conditional
	now, generation := r.o.Clock.Monotonic(), r.o.Acceptor.generation.Load()
	k.Lock()
	if found := k.found; k.looked && now-k.at < r.o.Look && generation == k.generation {
		k.Unlock()
		done(found, nil)
		return
	}
	k.waiting = append(k.waiting, done)
	if k.looking {
		k.Unlock()
		return
	}
	k.looking = true
	k.Unlock()
	found, gone, err := r.o.Acceptor.lookAtPaxos(r.o.Clock.Now().UnixMicro())
	r.removeGone(gone)
	k.Lock()
	k.found, k.looked, k.at, k.generation = found, err == nil, now, generation
	waiting := k.waiting
	k.waiting, k.looking = nil, false
	k.Unlock()
	for _, f := range waiting {
		f(found, err)
	}
}

// goneState is the state of a partition of a table that this node does not know.
type goneState struct {
	key        row.PartitionKey
	clustering []byte
	newest     int64 // µs
}

// goneStatesMax bounds how many such states one look removes.
const goneStatesMax = 4096

// removeGone removes the states of tables that do not exist, when the catalog has been confirmed: a table that this node
// does not know may be one of which it has not heard yet.
func (r *Purge) removeGone(gone []goneState) {
	if len(gone) == 0 || r.o.Confirm == nil {
		return
	}
	r.o.Confirm(func() {
		catalog := r.o.Acceptor.view.Schema()
		known := map[string]bool{}
		for _, id := range catalog.StorageIDs() {
			if t := catalog.TableByStorage(id); t != nil {
				known[string(clusteringOf(t))] = true
			}
		}
		r.o.Run(func() {
			for _, s := range gone {
				if !known[string(s.clustering)] { // what is not removed now is found by the next look
					_ = r.o.Acceptor.replica.Write([]*row.Mutation{paxosDeletion(s.key, s.clustering, s.newest)}, false, func(error) {})
				}
			}
		})
	})
}

// lookAtPaxos reads all states: it finds the tables that have any, and states of tables that this node does not know.
func (a *Acceptor) lookAtPaxos(now int64) (found map[schema.StorageID]bool, gone []goneState, err error) {
	catalog := a.view.Schema()
	tables := map[string]schema.StorageID{}
	for _, id := range catalog.StorageIDs() {
		if t := catalog.TableByStorage(id); t != nil {
			tables[string(clusteringOf(t))] = id
		}
	}
	found = map[schema.StorageID]bool{}
	cmd := &row.ReadCommand{Table: schema.PaxosTable, Range: row.KeyRange{Tokens: ring.FullRange()}, Slices: []row.Slice{row.AllRows()},
		Limits: row.Limits{Rows: paxosStepRows}}
	for cmd != nil {
		page, err := a.replica.ReadPageWhole(cmd)
		if err != nil {
			return nil, nil, failed(err)
		}
		var p row.PageReader
		var x row.Row
		for p.Reset(page); p.NextPartition(); {
			for p.NextRow(&x) {
				id, ok := tables[string(x.Clustering)]
				newest := newestOf(&x)
				switch {
				case newest == 0: // forgotten, and not swept yet
				case ok:
					found[id] = true
				case newest < now-paxosGoneAfter && len(gone) < goneStatesMax:
					key := row.PartitionKey{Token: p.Key.Token, Bytes: bytes.Clone(p.Key.Bytes)}
					gone = append(gone, goneState{key, bytes.Clone(x.Clustering), newest})
				}
			}
		}
		if cmd, err = row.NextPage(cmd, page, ring.FullRange()); err != nil {
			return nil, nil, failed(err)
		}
	}
	return found, gone, nil
}

// newestOf is the greatest timestamp (µs) of a state's cells.
func newestOf(r *row.Row) (newest int64) {
	for i := range r.Cells {
		newest = max(newest, r.Cells[i].Timestamp)
	}
	return newest
}
