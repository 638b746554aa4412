package simulation

import (
	"time"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// workload is clients with a purpose, and the judge of what they saw. Each has its own tables, its
// own stream of random numbers and its own file. In the order of a run:
type workload interface {
	// start schedules the clients' first steps; nothing is sent yet. They work until the cluster is
	// healed. Most use clients.
	start()
	// idle says whether all clients have ended.
	idle() bool
	// readBack reads what there is in a healed cluster, where everything must succeed (Cluster.must).
	readBack()
	// check judges what was seen, and calls Cluster.fail for each broken promise.
	check()
	// counts are how many operations were tried and how many were acknowledged.
	counts() (tried, acked int)
}

// workloadKind is one entry of the list of workloads.
type workloadKind struct {
	name   string
	tables []*schema.CreateTable
	make   func(*Cluster) workload
	// asked says that it runs only when it is asked for, not drawn: it needs options of its own.
	asked bool
	// late says that it came later: seeds draw it from a stream of its own, as late faults.
	late bool
	// alone says that it came later still, and has a stream to itself: no other draw moves.
	alone bool
	// drawn says that only DrawnOptions draw it.
	drawn bool
}

// workloadKinds is the list. A new workload is a new line here; the order is part of what a seed
// means only to the drawing of Options.Workloads.
func workloadKinds() []workloadKind {
	return []workloadKind{
		{name: "register", tables: tables(textTable("registers")), make: func(c *Cluster) workload { return newRegisters(c) }},
		{name: "set", tables: tables(textTable("sets")), make: func(c *Cluster) workload { return newSets(c) }},
		{name: "cas", tables: tables(textTable("cas")), make: func(c *Cluster) workload { return newCASRegisters(c) }},
		{name: "counter", tables: tables(counterTable("counters")), make: func(c *Cluster) workload { return newCounters(c) }},
		{name: "batch", tables: tables(textTable("batches")), make: func(c *Cluster) workload { return newBatches(c) }},
		{name: "append", tables: tables(textTable("appends")), make: func(c *Cluster) workload { return newAppends(c) }},
		{name: "bank", tables: tables(textTable("bank")), make: func(c *Cluster) workload { return newBank(c) }},
		{name: "isolation", tables: tables(textTable("isolation")), make: func(c *Cluster) workload { return newIsolation(c) }},
		{name: "ttl", tables: tables(textTable("ttls")), make: func(c *Cluster) workload { return newTTLs(c) }},
		{name: "churn", make: func(c *Cluster) workload { return newChurn(c) }},
		{name: "paging", tables: tables(textTable("pagings")), make: func(c *Cluster) workload { return newPagings(c) }},
		{name: "graves", tables: tables(graveTable()), make: func(c *Cluster) workload { return newGraves(c) }, asked: true},
		{name: "overflow", tables: tables(textTable("overflows")), make: func(c *Cluster) workload { return newOverflows(c) }, asked: true},
		{name: "truncate", tables: tables(truncateTable()), make: func(c *Cluster) workload { return newTruncates(c) }, asked: true},
		{name: "calm", tables: tables(textTable("calms"), counterTable("calmcounters")), make: func(c *Cluster) workload { return newCalm(c) }, asked: true},
		{name: "contended", tables: tables(textTable("contended")), make: func(c *Cluster) workload { return newContended(c) }, asked: true},
		{name: "ties", tables: tables(textTable("ties")), make: func(c *Cluster) workload { return newTies(c) }, late: true},
		{name: "ordered", tables: tables(orderedTable(), walkedTable()), make: func(c *Cluster) workload { return newOrdereds(c) }, late: true},
		{name: "skewed", tables: tables(skewedTable()), make: func(c *Cluster) workload { return newSkewed(c) }, alone: true},
		{name: "entity", tables: tables(entitiesTable()), make: func(c *Cluster) workload { return newEntities(c) }, alone: true},
		{name: "restarts", tables: tables(textTable("restarts")), make: func(c *Cluster) workload { return newRestarts(c) }, asked: true},
		{name: "replications", make: func(c *Cluster) workload { return newReplications(c) }, asked: true},
		{name: "levels", tables: tables(textTable("levels")), make: func(c *Cluster) workload { return newLevelled(c) }, drawn: true},
		{name: "reborn", tables: tables(textTable(rebornTable)), make: func(c *Cluster) workload { return newReborn(c) }, drawn: true},
		{name: "rich", tables: tables(richTable()), make: func(c *Cluster) workload { return newRiches(c) }, drawn: true},
	}
}

func tables(t ...*schema.CreateTable) []*schema.CreateTable { return t }

// simTable is a table in the keyspace of the simulation, which is replicated to all nodes.
func simTable(name string, columns ...schema.ColumnSpec) *schema.CreateTable {
	id := schema.UUID{}
	copy(id[:], name)
	return &schema.CreateTable{Keyspace: keyspace, Table: name, ID: id, Columns: columns, Options: schema.DefaultOptions()}
}

// textTable has a partition key k, a clustering column c and a column v, all text.
func textTable(name string) *schema.CreateTable {
	text := types.Native(types.Text)
	return simTable(name,
		schema.ColumnSpec{Name: "k", Kind: schema.PartitionKey, Type: text},
		schema.ColumnSpec{Name: "c", Kind: schema.Clustering, Type: text},
		schema.ColumnSpec{Name: "v", Kind: schema.Regular, Type: text})
}

// keyspace is where the workloads' tables are.
const keyspace = "sim"

// operationTimeout is what coordinators get; clients wait half a second longer.
const operationTimeout = time.Second

// truncationWait is how long a stream waits for a source that a TRUNCATE did not reach, and how long reads repair nothing when
// the end of a TRUNCATE does not come: longer than any TRUNCATE runs here, and much shorter than the time by which every node
// must serve.
const truncationWait = 15 * time.Second

// clients are a workload's: each does one thing after the other, at any node that runs, until the
// cluster is healed.
type clients struct {
	c       *Cluster
	name    string
	rand    *Stream
	running int
}

// newClients makes the clients of a workload, with a stream of random numbers of its name.
func newClients(c *Cluster, name string) clients {
	return clients{c: c, name: name, rand: NewStream(c.options.Seed, name)}
}

// step is one operation of a client at a node. When it has its result it calls end, once: true says
// that the client has waited for it, false that it lost patience and nobody knows what happened.
type step func(l *life, client int, end func() bool)

// launch sends n clients out, with pauses of up to pauseMax between their steps.
func (w *clients) launch(n int, pauseMax time.Duration, do step) {
	w.running = n
	for i := range n {
		w.c.kernel.After(w.rand.Between(0, 20*time.Millisecond), w.name, func() { w.turn(i, pauseMax, do, 0) })
	}
}

func (w *clients) turn(client int, pauseMax time.Duration, do step, turns int) {
	if w.c.healed || turns == w.c.options.Turns {
		w.running--
		return
	}
	node := w.c.nodes[w.rand.Intn(len(w.c.nodes))]
	pause := w.c.stretched(w.rand.Between(time.Millisecond, pauseMax))
	ended := false
	end := func() bool {
		if ended {
			return false
		}
		ended = true
		w.c.kernel.After(pause, w.name, func() { w.turn(client, pauseMax, do, turns+1) })
		return true
	}
	l := node.life
	if !l.serves() {
		end() // the connection was refused
		return
	}
	w.c.kernel.After(operationTimeout+500*time.Millisecond, "patience", func() { end() })
	l.do(func() { do(l, client, end) })
}

func (w *clients) idle() bool { return w.running == 0 }

// must does something at a node of a healed cluster, where it may not fail, and waits for it. A node
// that did not start was noted before, and is left out.
func (c *Cluster) must(n *Node, what string, do func(l *life, done func(error))) bool {
	patience := 10 * time.Second
	if c.options.at("one-row-pages") {
		patience = time.Minute // for as many pages as there are rows
	}
	return c.mustWithin(patience, n, what, do)
}

// mustWithin is must with a limit of its own.
func (c *Cluster) mustWithin(patience time.Duration, n *Node, what string, do func(l *life, done func(error))) bool {
	if n.life == nil {
		return false
	}
	ended := false
	var failure error
	do(n.life, func(err error) { ended, failure = true, err })
	if !ended {
		c.kernel.RunUntil(c.kernel.Now()+c.paced(patience), func() bool { return ended })
	}
	switch {
	case !ended:
		c.fail("%s at node %d gets no answer in a healed cluster", what, n.id)
	case failure != nil:
		c.fail("%s at node %d fails in a healed cluster: %v", what, n.id, failure)
	}
	return ended && failure == nil
}

// everywhere does something that may not fail at one node after the other.
func (c *Cluster) everywhere(what string, do func(l *life, done func(error))) {
	for _, n := range c.present() {
		c.must(n, what, do)
	}
}

// write makes a change as a client of the process does.
func (l *life) write(m *row.Mutation, level ring.Consistency, done func(error)) {
	l.coord.Write(&coordinator.WriteRequest{
		Mutations: []*row.Mutation{m}, Consistency: level, Type: coordinator.WriteSimple, Timeout: operationTimeout,
	}, done)
}

// partition asks for all rows of a partition.
func (l *life) partition(table *schema.Table, key row.PartitionKey) *row.ReadCommand {
	return &row.ReadCommand{Table: table.StorageID, Key: key, Slices: []row.Slice{row.AllRows()}, Now: clock{l}.Now().Unix()}
}

// read reads as a client of the process does.
func (l *life) read(cmd *row.ReadCommand, level ring.Consistency, done func(page []byte, err error)) {
	req := &coordinator.ReadRequest{Command: cmd, Consistency: level, Timeout: operationTimeout}
	if level.IsSerial() {
		l.proposer.Read(req, done)
		return
	}
	l.coord.Read(req, done)
}

// tick is the next moment in the order in which clients saw things happen: real time, as the
// checkers see it.
func (c *Cluster) tick() int64 {
	c.order++
	return c.order
}

// stamp is a timestamp later than all before it, as from a perfect clock. Workloads that do not ask
// which of two writes wins take theirs from here; others from the node's own clock (life.hlc).
func (c *Cluster) stamp() int64 {
	c.lastStamp = max(c.lastStamp+1, int64(c.kernel.Now()/time.Microsecond)+epoch*1_000_000)
	return c.lastStamp
}

// table is a table as it is now.
func (c *Cluster) table(name string) *schema.Table { return c.metadata().Schema.Table(keyspace, name) }
