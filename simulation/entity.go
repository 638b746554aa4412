package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
	"cqld/coordinator"
	"cqld/request"
	"cqld/ring"
	"cqld/schema"
	"cqld/simulation/history"
	"cqld/simulation/kernel"
	"cqld/simulation/texttable"
	"cqld/types"
)

// entities is the workload: clients change the entities of a few partitions in the data model of Azure Tables,
// individually and in transactions, with and without ETags, and read them. A sequential partition must be able to
// return the same answers (history.CheckEntities): no two inserts without a deletion in between, no ETag that is valid
// twice, no part of a transaction. In addition, each client inserts entities that stay, and lists all of them in key
// order, page by page: an insert that was acknowledged before a listing began must be in it, once. It uses package
// entity directly, without HTTP: the protocol has tests of its own.
type entities struct {
	clients
	// history is kept by partition, because a transaction of Azure Tables has one partition.
	history [entityPartitions][]*history.EntityCall
	// seen is what a client last read, or wrote itself.
	seen map[entityClient]history.EntityRow
	// stamps is the Timestamp of each version that was seen.
	stamps map[int64]int64
	// inserts has the keys PartitionKey/RowKey. All of these partitions begin with "own", and the shared ones do not.
	inserts map[string]*entityInsert
	tried   int
	acked   int
}

const (
	entityPartitions = 3
	entityClients    = 4
	entityTable      = "entities"
)

// entityClient identifies what one client knows of one entity.
type entityClient struct{ client, partition, row int }

// entityInsert is an entity that stays. Both are ticks.
type entityInsert struct{ call, acked int64 } // acked is 0 until it was acknowledged

// entitiesTable returns a table with all columns of the workload's properties, because no server adds columns here.
func entitiesTable() *schema.CreateTable {
	text, number := types.Native(types.Text), types.Native(types.Bigint)
	return texttable.Typed(entityTable,
		schema.ColumnSpec{Name: "PartitionKey", Kind: schema.PartitionKey, Type: text},
		schema.ColumnSpec{Name: "RowKey", Kind: schema.Clustering, Type: text},
		schema.ColumnSpec{Name: "version", Kind: schema.Regular, Type: number},
		schema.ColumnSpec{Name: "kept", Kind: schema.Regular, Type: number})
}

// newEntities returns the workload; the stores are made with the processes.
func newEntities(c *Cluster) *entities {
	return &entities{clients: newClients(c, "entity"), seen: map[entityClient]history.EntityRow{},
		stamps: map[int64]int64{}, inserts: map[string]*entityInsert{}}
}

// store returns the Azure Tables data of a process. Options are as in package node, except that nothing authorizes:
// clients are anonymous.
func (w *entities) store(l *process) *entity.Store {
	// The store belongs to the process: it ends with it.
	if l.entities == nil {
		n := l.node
		l.entities = entity.New(entity.Options{
			Executor: request.New(request.Options{Coordinator: l.coord, Lister: l.parts.Lister,
				Batches: l.parts.Batches, Counters: l.parts.Counters, Proposer: l.proposer,
				Clock: clock{l}, NewWaiter: l.NewWaiter}), View: l, Clock: clock{l},
			Rand: kernel.NewStream(w.c.options.Seed, fmt.Sprint("entity ", n.id, n.incarnations)),
			Timeouts: entity.Timeouts{Read: operationTimeout, Write: operationTimeout, CAS: operationTimeout,
				Change: 2 * operationTimeout, Page: operationTimeout},
		})
	}
	return l.entities
}

// counts returns the operations, and the ones with an answer, refusals included.
func (w *entities) counts() (tried, acked int) { return w.tried, w.acked }

// start starts the clients. A step inserts an entity that stays, lists all entities, reads, or executes a transaction.
func (w *entities) start() {
	w.launch(entityClients, 60*time.Millisecond, func(l *process, client int, end func() bool) {
		partition := w.rand.Intn(entityPartitions)
		in := history.EntityInput{Row: -1}
		switch n := w.rand.Intn(100); {
		case n < 12:
			w.insert(l, client, func() { end() })
			return
		case n < 18:
			// The store blocks, so each operation runs as a task of the event queue.
			l.RunTask(func() {
				w.c.kernel.Trace(fmt.Sprint("entity list ", w.list(l)))
				end()
			})
			return
		case n < 35:
			in.Row = w.rand.Intn(history.EntityRows)
		case n < 48: // all rows
		case n < 50:
			in.Wipe = true
		default:
			in.Ops = w.transaction(client, partition)
		}
		w.run(l, client, partition, in, func(error) { end() })
	})
}

// transaction draws operations on different rows, based on what the client last read. Expect is 0 without an ETag
// (If-Match: *).
func (w *entities) transaction(client, partition int) (ops []history.EntityOp) {
	// A transaction may have each entity once.
	count, first := 1, w.rand.Intn(history.EntityRows)
	if w.rand.Chance(400) {
		count = 2 + w.rand.Intn(history.EntityRows-1)
	}
	for i := range count {
		// The version identifies the write: a read shows which operation wrote the entity.
		op := history.EntityOp{Row: (first + i) % history.EntityRows, Version: w.c.order.tick()}
		last := w.seen[entityClient{client, partition, op.Row}].Version
		kinds := []entity.Kind{entity.Update, entity.Update, entity.Merge, entity.Merge, entity.Delete,
			entity.InsertOrReplace, entity.InsertOrMerge, entity.Insert}
		// The client believes that the entity does not exist. Most operations then insert; the others must be refused.
		if last == 0 {
			kinds = []entity.Kind{entity.Insert, entity.Insert, entity.Insert, entity.InsertOrReplace,
				entity.InsertOrMerge, entity.Update, entity.Delete}
		}
		op.Kind = kinds[w.rand.Intn(len(kinds))]
		// Without an ETag, an operation matches any version.
		if op.Kind != entity.Insert && w.rand.Chance(700) {
			op.Expect = last
		}
		ops = append(ops, op)
	}
	return ops
}

// entityKey returns the PartitionKey of a partition that clients share.
func entityKey(partition int) string { return fmt.Sprint("shared", partition) }

// run executes one operation on a partition. A refusal names the operation that failed (Out.Failed, an index) and its
// code, which the checker explains with a state of the partition.
func (w *entities) run(l *process, client, partition int, in history.EntityInput, done func(error)) {
	// A read without an answer constrains nothing, so it is dropped until it has one.
	reads := in.Ops == nil && !in.Wipe
	x := &history.EntityCall{In: in, Call: w.c.order.tick(), Out: history.EntityOutput{Failed: -1}, Dropped: reads}
	w.history[partition] = append(w.history[partition], x)
	w.tried++
	l.RunTask(func() {
		var err error
		switch s := w.store(l); {
		case in.Wipe:
			err = s.DeletePartition(quorum(), keyspace, entityTable, entityKey(partition))
		case in.Ops != nil:
			err = w.apply(s, partition, in.Ops)
		default:
			x.Out.Rows, err = w.read(s, partition, in.Row)
		}
		var failed *entity.Failed
		var refused *odata.Error
		// A refusal is an answer that the checker explains, not an error: nothing was applied.
		if errors.As(err, &failed) && errors.As(failed.Err, &refused) {
			x.Out.Failed, x.Out.Code, err = failed.Index, refused.Code, nil
		}
		w.c.kernel.Trace(fmt.Sprint("end entity ", client, partition, in, x.Out, err))
		if x.Dropped = reads || errors.Is(err, coordinator.ErrNotSent); err == nil {
			x.Returned = w.c.order.tick()
			w.acked++
			w.learn(client, partition, x)
		}
		done(err)
	})
}

// apply executes a transaction.
func (w *entities) apply(s *entity.Store, partition int, ops []history.EntityOp) error {
	var all []entity.Operation
	for _, op := range ops {
		o := entity.Operation{Kind: op.Kind, Conditional: op.Expect != 0, Match: w.stamps[op.Expect],
			Entity: odata.Entity{PartitionKey: entityKey(partition), RowKey: fmt.Sprint(op.Row)}}
		// Match is the Timestamp of the version that the client expects, as a client of Azure Tables sends it in an
		// ETag.
		if op.Kind != entity.Delete {
			o.Entity.Properties = append(o.Entity.Properties, numberProperty("version", op.Version))
		}
		// Operations that merge leave the property kept as it was; the others set it, too.
		if op.Kind == entity.Insert || op.Kind == entity.Update || op.Kind == entity.InsertOrReplace {
			o.Entity.Properties = append(o.Entity.Properties, numberProperty("kept", op.Version))
		}
		all = append(all, o)
	}
	stamps, err := s.Apply(quorum(), keyspace, entityTable, all)
	if err == nil {
		for i, op := range ops {
			if op.Kind != entity.Delete {
				w.stamped(op.Version, stamps[i])
			}
		}
	}
	return err
}

func numberProperty(name string, v int64) odata.Property {
	return odata.Property{Name: name, Value: odata.Value{Type: odata.Int64, Int: v}}
}

// stamped records the Timestamp of a version, which must be unique. Versions are numbers of this workload, Timestamps
// are made by the server. ETags compare Timestamps, so two versions with one Timestamp would make an ETag valid twice.
func (w *entities) stamped(version, stamp int64) {
	// The Timestamp is also the ETag. A read may see it before the write's answer arrives, so either is recorded
	// first.
	if was, ok := w.stamps[version]; ok && was != stamp {
		w.c.fail("entity version %d has the Timestamps %d and %d", version, was, stamp)
	}
	w.stamps[version] = stamp
}

// read reads a row, or all rows of a partition. only is a row, or negative for all rows of the partition.
func (w *entities) read(s *entity.Store, partition, only int) (rows [history.EntityRows]history.EntityRow, err error) {
	var found []odata.Entity
	// A missing row is not an error: it reads as the zero EntityRow.
	if only >= 0 {
		e, err := s.Get(quorum(), keyspace, entityTable, entityKey(partition), fmt.Sprint(only), nil)
		var refused *odata.Error
		switch {
		case errors.As(err, &refused) && refused.Code == odata.ResourceNotFound:
			return rows, nil
		case err != nil:
			return rows, err
		}
		found = append(found, *e)
	} else {
		page, err := s.Query(quorum(), keyspace, entityTable,
			&entity.Query{Filter: keyFilter(odata.Eq, entityKey(partition))})
		if err != nil {
			return rows, err
		}
		// A partition must come as a whole, or the checker would take a part for the state of all rows.
		if page.Next != nil {
			return rows, errors.New("a part of the partition")
		}
		found = page.Entities
	}
	for _, e := range found {
		var at int
		// Rows of shared partitions have small numbers as RowKey.
		if _, err := fmt.Sscan(e.RowKey, &at); err != nil || at >= history.EntityRows {
			return rows, fmt.Errorf("row %q", e.RowKey)
		}
		for _, p := range e.Properties {
			switch p.Name {
			case "version":
				rows[at].Version = p.Value.Int
			case "kept":
				rows[at].Kept = p.Value.Int
			}
		}
		w.stamped(rows[at].Version, e.Timestamp)
	}
	return rows, nil
}

// keyFilter returns a filter that compares PartitionKey.
func keyFilter(op odata.Op, key string) odata.Expr {
	return &odata.Comparison{Property: "PartitionKey", Op: op,
		Value: odata.Value{Type: odata.String, Bytes: []byte(key)}}
}

// learn records what a client knows of rows after an answer. A client acts on it in its next transaction, so it often
// holds outdated ETags, whose operations must be refused.
func (w *entities) learn(client, partition int, x *history.EntityCall) {
	// A read shows the rows that it covers.
	for at := range history.EntityRows {
		if x.In.Ops == nil && (x.In.Row < 0 || x.In.Row == at) {
			w.seen[entityClient{client, partition, at}] = x.Out.Rows[at]
		}
	}
	// After a transaction, the client knows the rows that it wrote. After a refusal, it knows nothing new.
	for _, op := range x.In.Ops {
		k := entityClient{client, partition, op.Row}
		switch {
		// It keeps what it believed. Its next read corrects that.
		case x.Out.Failed >= 0:
		case op.Kind == entity.Delete:
			w.seen[k] = history.EntityRow{}
		default:
			w.seen[k] = history.EntityRow{Version: op.Version}
		}
	}
}

// insert inserts an entity that stays into one of the client's partitions. Twelve partitions for each client make
// listings cross partitions often.
func (w *entities) insert(l *process, client int, next func()) {
	// The tick is part of the key, so no two inserts have one key, and a refusal is always a violation.
	x := &entityInsert{call: w.c.order.tick()}
	key := fmt.Sprintf("own%d-%02d/%06d", client, w.rand.Intn(12), x.call)
	w.inserts[key] = x
	w.tried++
	l.RunTask(func() {
		partition, row, _ := strings.Cut(key, "/")
		_, err := w.store(l).Apply(quorum(), keyspace, entityTable, []entity.Operation{{Kind: entity.Insert,
			Entity: odata.Entity{PartitionKey: partition, RowKey: row,
				Properties: []odata.Property{numberProperty("version", x.call)}}}})
		w.c.kernel.Trace(fmt.Sprint("end entity insert ", key, err))
		var failed *entity.Failed
		if errors.As(err, &failed) {
			w.c.fail("entity %s is new, and was refused: %v", key, err)
		}
		if err == nil {
			x.acked = w.c.order.tick()
			w.acked++
		}
		next()
	})
}

// list lists all entities, or those from a partition key on, and compares them with the acknowledged ones. Top bounds a
// page, from 1 to 40 entities.
func (w *entities) list(l *process) error {
	q := &entity.Query{Top: 1 + w.rand.Intn(40)}
	// The filter is a lower bound of the PartitionKey, which is also a lower bound of the whole key.
	from := ""
	if w.rand.Chance(300) {
		from = fmt.Sprintf("own%d", w.rand.Intn(entityClients))
		q.Filter = keyFilter(odata.Ge, from)
	}
	call, last := w.c.order.tick(), ""
	w.tried++
	listed := map[string]bool{}
	// Each page is a request of its own, at the same node; entities may be inserted between two pages.
	for {
		page, err := w.store(l).Query(quorum(), keyspace, entityTable, q)
		if err != nil {
			return err
		}
		for _, e := range page.Entities {
			key := e.PartitionKey + "/" + e.RowKey
			// Key order, across pages: no entity may be listed twice.
			if key <= last {
				w.c.fail("entity %s is listed behind %s", key, last)
			}
			if x := w.inserts[key]; strings.HasPrefix(key, "own") &&
				(x == nil || len(e.Properties) != 1 || e.Properties[0].Value.Int != x.call) {
				w.c.fail("entity %s is listed with %v, which was never inserted", key, e.Properties)
			}
			last, listed[key] = key, true
		}
		if q.From = page.Next; q.From == nil {
			break
		}
	}
	w.acked++
	// An insert without an acknowledgment, or acknowledged during the listing, may be in it or not.
	for _, key := range slices.Sorted(maps.Keys(w.inserts)) {
		if x := w.inserts[key]; x.acked != 0 && x.acked < call && key >= from && !listed[key] {
			w.c.fail("entity %s was inserted at %d, and a listing that began at %d has it not", key, x.acked, call)
		}
	}
	return nil
}

// readBack reads all partitions and lists all entities, from every node.
func (w *entities) readBack() {
	for partition := range entityPartitions {
		w.c.everywhere(fmt.Sprint("entities ", partition), func(l *process, done func(error)) {
			w.run(l, entityClients, partition, history.EntityInput{Row: -1}, done)
		})
	}
	w.c.everywhere("the entities", func(l *process, done func(error)) { l.RunTask(func() { done(w.list(l)) }) })
}

// quorum returns a request of the Tables server.
func quorum() *request.Request {
	return &request.Request{Context: context.Background(), Consistency: ring.Quorum, SerialConsistency: ring.Serial}
}

// check checks the history of each partition. Listings and inserts were checked when they ended.
func (w *entities) check() {
	for partition, calls := range w.history {
		w.c.verify.found(history.CheckEntities(calls, partition))
	}
}
