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
	"cqld/types"
)

// entities is the workload: clients change the entities of a few partitions in the data model of Azure Tables,
// individually and in transactions, with and without ETags, and read them. A sequential partition must be able to
// return the same answers (entity_check.go): no two inserts without a deletion in between, no ETag that is valid twice,
// no part of a transaction. In addition, each client inserts entities that stay, and lists all of them in key order,
// page by page: an insert that was acknowledged before a listing began must be in it, once.
type entities struct {
	clients
	history [entityPartitions][]*entityCall
	seen    map[entityClient]entityRow // what a client last read
	stamps  map[int64]int64            // the Timestamp of each version that was seen
	inserts map[string]*entityInsert
	tried   int
	acked   int
}

const (
	entityPartitions = 3
	entityRows       = 4
	entityClients    = 4
	entityTable      = "entities"
)

type entityClient struct{ client, partition, row int }

// entityInsert is an entity that stays.
type entityInsert struct{ call, acked int64 } // acked is 0 until it was acknowledged

// entitiesTable returns a table with all columns of the workload's properties, because no server adds columns here.
func entitiesTable() *schema.CreateTable {
	text, number := types.Native(types.Text), types.Native(types.Bigint)
	return simTable(entityTable,
		schema.ColumnSpec{Name: "PartitionKey", Kind: schema.PartitionKey, Type: text},
		schema.ColumnSpec{Name: "RowKey", Kind: schema.Clustering, Type: text},
		schema.ColumnSpec{Name: "version", Kind: schema.Regular, Type: number},
		schema.ColumnSpec{Name: "kept", Kind: schema.Regular, Type: number})
}

func newEntities(c *Cluster) *entities {
	return &entities{clients: newClients(c, "entity"), seen: map[entityClient]entityRow{}, stamps: map[int64]int64{},
		inserts: map[string]*entityInsert{}}
}

// store returns the Azure Tables data of a process.
func (w *entities) store(l *process) *entity.Store {
	if l.entities == nil {
		n := l.node
		l.entities = entity.New(entity.Options{
			Executor: request.New(request.Options{Coordinator: l.coord, Lister: l.parts.Lister,
				Batches: l.parts.Batches, Counters: l.parts.Counters, Proposer: l.proposer,
				Clock: clock{l}, NewWaiter: l.newWaiter}), View: l, Clock: clock{l},
			Rand: NewStream(w.c.options.Seed, fmt.Sprint("entity ", n.id, n.incarnations)),
			Timeouts: entity.Timeouts{Read: operationTimeout, Write: operationTimeout, CAS: operationTimeout,
				Change: 2 * operationTimeout, Page: operationTimeout},
		})
	}
	return l.entities
}

func (w *entities) counts() (tried, acked int) { return w.tried, w.acked }

func (w *entities) start() {
	w.launch(entityClients, 60*time.Millisecond, func(l *process, client int, end func() bool) {
		partition := w.rand.Intn(entityPartitions)
		in := entityInput{row: -1}
		switch n := w.rand.Intn(100); {
		case n < 12:
			w.insert(l, client, func() { end() })
			return
		case n < 18:
			l.run(func() {
				w.c.kernel.Trace(fmt.Sprint("entity list ", w.list(l)))
				end()
			})
			return
		case n < 35:
			in.row = w.rand.Intn(entityRows)
		case n < 48: // all rows
		case n < 50:
			in.wipe = true
		default:
			in.ops = w.transaction(client, partition)
		}
		w.run(l, client, partition, in, func(error) { end() })
	})
}

// transaction draws operations on different rows, based on what the client last read.
func (w *entities) transaction(client, partition int) (ops []entityOp) {
	count, first := 1, w.rand.Intn(entityRows)
	if w.rand.Chance(400) {
		count = 2 + w.rand.Intn(entityRows-1)
	}
	for i := range count {
		op := entityOp{row: (first + i) % entityRows, version: w.c.order.tick()}
		last := w.seen[entityClient{client, partition, op.row}].version
		kinds := []entity.Kind{entity.Update, entity.Update, entity.Merge, entity.Merge, entity.Delete,
			entity.InsertOrReplace, entity.InsertOrMerge, entity.Insert}
		if last == 0 {
			kinds = []entity.Kind{entity.Insert, entity.Insert, entity.Insert, entity.InsertOrReplace,
				entity.InsertOrMerge, entity.Update, entity.Delete}
		}
		op.kind = kinds[w.rand.Intn(len(kinds))]
		if op.kind != entity.Insert && w.rand.Chance(700) {
			op.expect = last
		}
		ops = append(ops, op)
	}
	return ops
}

func entityKey(partition int) string { return fmt.Sprint("shared", partition) }

// run executes one operation on a partition.
func (w *entities) run(l *process, client, partition int, in entityInput, done func(error)) {
	reads := in.ops == nil && !in.wipe
	x := &entityCall{in: in, call: w.c.order.tick(), out: entityOutput{failed: -1}, dropped: reads}
	w.history[partition] = append(w.history[partition], x)
	w.tried++
	l.run(func() {
		var err error
		switch s := w.store(l); {
		case in.wipe:
			err = s.DeletePartition(quorum(), keyspace, entityTable, entityKey(partition))
		case in.ops != nil:
			err = w.apply(s, partition, in.ops)
		default:
			x.out.rows, err = w.read(s, partition, in.row)
		}
		var failed *entity.Failed
		var refused *odata.Error
		if errors.As(err, &failed) && errors.As(failed.Err, &refused) {
			x.out.failed, x.out.code, err = failed.Index, refused.Code, nil
		}
		w.c.kernel.Trace(fmt.Sprint("end entity ", client, partition, in, x.out, err))
		if x.dropped = reads || errors.Is(err, coordinator.ErrNotSent); err == nil {
			x.returned = w.c.order.tick()
			w.acked++
			w.learn(client, partition, x)
		}
		done(err)
	})
}

// apply executes a transaction.
func (w *entities) apply(s *entity.Store, partition int, ops []entityOp) error {
	var all []entity.Operation
	for _, op := range ops {
		o := entity.Operation{Kind: op.kind, Conditional: op.expect != 0, Match: w.stamps[op.expect],
			Entity: odata.Entity{PartitionKey: entityKey(partition), RowKey: fmt.Sprint(op.row)}}
		if op.kind != entity.Delete {
			o.Entity.Properties = append(o.Entity.Properties, numberProperty("version", op.version))
		}
		if op.kind == entity.Insert || op.kind == entity.Update || op.kind == entity.InsertOrReplace {
			o.Entity.Properties = append(o.Entity.Properties, numberProperty("kept", op.version))
		}
		all = append(all, o)
	}
	stamps, err := s.Apply(quorum(), keyspace, entityTable, all)
	if err == nil {
		for i, op := range ops {
			if op.kind != entity.Delete {
				w.stamped(op.version, stamps[i])
			}
		}
	}
	return err
}

func numberProperty(name string, v int64) odata.Property {
	return odata.Property{Name: name, Value: odata.Value{Type: odata.Int64, Int: v}}
}

// stamped records the Timestamp of a version, which must be unique.
func (w *entities) stamped(version, stamp int64) {
	if was, ok := w.stamps[version]; ok && was != stamp {
		w.c.fail("entity version %d has the Timestamps %d and %d", version, was, stamp)
	}
	w.stamps[version] = stamp
}

// read reads a row, or all rows of a partition.
func (w *entities) read(s *entity.Store, partition, only int) (rows [entityRows]entityRow, err error) {
	var found []odata.Entity
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
		if page.Next != nil {
			return rows, errors.New("a part of the partition")
		}
		found = page.Entities
	}
	for _, e := range found {
		var at int
		if _, err := fmt.Sscan(e.RowKey, &at); err != nil || at >= entityRows {
			return rows, fmt.Errorf("row %q", e.RowKey)
		}
		for _, p := range e.Properties {
			switch p.Name {
			case "version":
				rows[at].version = p.Value.Int
			case "kept":
				rows[at].kept = p.Value.Int
			}
		}
		w.stamped(rows[at].version, e.Timestamp)
	}
	return rows, nil
}

func keyFilter(op odata.Op, key string) odata.Expr {
	return &odata.Comparison{Property: "PartitionKey", Op: op,
		Value: odata.Value{Type: odata.String, Bytes: []byte(key)}}
}

// learn records what a client knows of rows after an answer.
func (w *entities) learn(client, partition int, x *entityCall) {
	for at := range entityRows {
		if x.in.ops == nil && (x.in.row < 0 || x.in.row == at) {
			w.seen[entityClient{client, partition, at}] = x.out.rows[at]
		}
	}
	for _, op := range x.in.ops {
		k := entityClient{client, partition, op.row}
		switch {
		case x.out.failed >= 0: // it will read
		case op.kind == entity.Delete:
			w.seen[k] = entityRow{}
		default:
			w.seen[k] = entityRow{version: op.version}
		}
	}
}

// insert inserts an entity that stays into one of the client's partitions.
func (w *entities) insert(l *process, client int, next func()) {
	x := &entityInsert{call: w.c.order.tick()}
	key := fmt.Sprintf("own%d-%02d/%06d", client, w.rand.Intn(12), x.call)
	w.inserts[key] = x
	w.tried++
	l.run(func() {
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

// list lists all entities, or those from a partition key on, and compares them with the acknowledged ones.
func (w *entities) list(l *process) error {
	q := &entity.Query{Top: 1 + w.rand.Intn(40)}
	from := ""
	if w.rand.Chance(300) {
		from = fmt.Sprintf("own%d", w.rand.Intn(entityClients))
		q.Filter = keyFilter(odata.Ge, from)
	}
	call, last := w.c.order.tick(), ""
	w.tried++
	listed := map[string]bool{}
	for {
		page, err := w.store(l).Query(quorum(), keyspace, entityTable, q)
		if err != nil {
			return err
		}
		for _, e := range page.Entities {
			key := e.PartitionKey + "/" + e.RowKey
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
			w.run(l, entityClients, partition, entityInput{row: -1}, done)
		})
	}
	w.c.everywhere("the entities", func(l *process, done func(error)) { l.run(func() { done(w.list(l)) }) })
}

// quorum returns a request of the Tables server.
func quorum() *request.Request {
	return &request.Request{Context: context.Background(), Consistency: ring.Quorum, SerialConsistency: ring.Serial}
}
