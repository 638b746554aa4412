package simulation

import (
	"time"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/kernel"
	"cqld/simulation/texttable"
)

// workload consists of clients and the check of their observations. Each has its own tables, stream of random numbers
// and file. The methods in the order of a run: All methods are called from outside of events, one after the other;
// start may be called again on a later day.
type workload interface {
	// start schedules the clients' first steps; nothing is sent yet. Clients are active until the cluster is healed.
	// Most workloads use clients.
	start()
	// idle reports whether all clients have ended.
	idle() bool
	// readBack reads the data in a healed cluster, where every request must succeed (Cluster.must).
	readBack()
	// check checks the observations, and calls Cluster.fail for each violation.
	check()
	// counts returns how many operations were sent and how many were acknowledged.
	counts() (tried, acked int)
}

// workloadKind is one entry of the list of workloads. A kind with none of explicit, late, alone and drawn is one of the
// oldest.
type workloadKind struct {
	// name is the name for the option -workloads, and for Options.Workloads.
	name   string
	tables []*schema.CreateTable
	// make is called after the tables exist and before any client starts.
	make func(*Cluster) workload
	// explicit means that it runs only if it is named, not drawn: it needs certain options.
	explicit bool
	// late means that it was added later: it is drawn from a stream of its own, like late faults.
	late bool
	// alone means that it was added after those, and has a stream for itself: no other draw changes.
	alone bool
	// drawn means that only DrawnOptions draws it.
	drawn bool
}

// workloadKinds returns the list. A new workload is a new line; the order affects only the draws of Options.Workloads.
func workloadKinds() []workloadKind {
	// First the oldest workloads, which seeds draw from the stream "options".
	return []workloadKind{
		{name: "register", tables: tables(texttable.New("registers")),
			make: func(c *Cluster) workload { return newRegisters(c) }},
		{name: "set", tables: tables(texttable.New("sets")), make: func(c *Cluster) workload { return newSets(c) }},
		{name: "cas", tables: tables(texttable.New("cas")),
			make: func(c *Cluster) workload { return newCASRegisters(c) }},
		{name: "counter", tables: tables(counterTable("counters")),
			make: func(c *Cluster) workload { return newCounters(c) }},
		{name: "batch", tables: tables(texttable.New("batches")),
			make: func(c *Cluster) workload { return newBatches(c) }},
		{name: "append", tables: tables(texttable.New("appends")),
			make: func(c *Cluster) workload { return newAppends(c) }},
		{name: "bank", tables: tables(texttable.New("bank")), make: func(c *Cluster) workload { return newBank(c) }},
		{name: "isolation", tables: tables(texttable.New("isolation")),
			make: func(c *Cluster) workload { return newIsolation(c) }},
		{name: "ttl", tables: tables(texttable.New("ttls")), make: func(c *Cluster) workload { return newTTLs(c) }},
		{name: "churn", make: func(c *Cluster) workload { return newChurn(c) }},
		{name: "paging", tables: tables(texttable.New("pagings")),
			make: func(c *Cluster) workload { return newPagings(c) }},
		// Explicit workloads need options that no seed draws: a time scale, a fixed ring, or certain faults.
		{name: "graves", tables: tables(graveTable()), make: func(c *Cluster) workload { return newGraves(c) },
			explicit: true},
		{name: "overflow", tables: tables(texttable.New("overflows")),
			make: func(c *Cluster) workload { return newOverflows(c) }, explicit: true},
		{name: "truncate", tables: tables(truncateTable()), make: func(c *Cluster) workload { return newTruncates(c) },
			explicit: true},
		{name: "calm", tables: tables(texttable.New("calms"), counterTable("calmcounters")),
			make: func(c *Cluster) workload { return newCalm(c) }, explicit: true},
		{name: "contended", tables: tables(texttable.New("contended")),
			make: func(c *Cluster) workload { return newContended(c) }, explicit: true},
		// Later workloads, which do not change the draws of those before them.
		{name: "ties", tables: tables(texttable.New("ties")), make: func(c *Cluster) workload { return newTies(c) },
			late: true},
		{name: "ordered", tables: tables(orderedTable(), walkedTable()),
			make: func(c *Cluster) workload { return newOrdereds(c) }, late: true},
		{name: "skewed", tables: tables(skewedTable()), make: func(c *Cluster) workload { return newSkewed(c) },
			alone: true},
		{name: "entity", tables: tables(entitiesTable()), make: func(c *Cluster) workload { return newEntities(c) },
			alone: true},
		{name: "restarts", tables: tables(texttable.New("restarts")),
			make: func(c *Cluster) workload { return newRestarts(c) }, explicit: true},
		{name: "replications", make: func(c *Cluster) workload { return newReplications(c) }, explicit: true},
		{name: "levels", tables: tables(texttable.New("levels")),
			make: func(c *Cluster) workload { return newLevelled(c) }, drawn: true},
		{name: "reborn", tables: tables(texttable.New(rebornTable)),
			make: func(c *Cluster) workload { return newReborn(c) }, drawn: true},
		{name: "rich", tables: tables(richTable()), make: func(c *Cluster) workload { return newRiches(c) },
			drawn: true},
	}
}

func tables(t ...*schema.CreateTable) []*schema.CreateTable { return t }

// keyspace is the keyspace of the workloads' tables.
const keyspace = texttable.Keyspace

// operationTimeout is the timeout of coordinators; clients wait half a second longer. It stays the same with Pace and
// TimeScale.
const operationTimeout = time.Second

// truncationWait is how long a stream waits for a source that a TRUNCATE did not reach, and how long reads repair
// nothing if the end of a TRUNCATE does not arrive: longer than any TRUNCATE in a run, and much shorter than the time
// by which every node must serve.
const truncationWait = 15 * time.Second

// clients are a workload's clients: each executes one operation after the other, at any running node, until the cluster
// is healed. A workload embeds it and implements the other methods of the interface.
type clients struct {
	c    *Cluster
	name string
	// rand is shared by the clients of the workload: their steps are events, one after the other.
	rand *kernel.Stream
	// running counts the clients that have not ended: those before their first step included.
	running int
}

// newClients returns the clients of a workload, with a stream of random numbers of its name.
func newClients(c *Cluster, name string) clients {
	return clients{c: c, name: name, rand: kernel.NewStream(c.options.Seed, name)}
}

// step is one operation of a client at a node. When it has its result it calls end, once: true means that the client
// waited for it, false that the client's request timed out and its outcome is unknown. It must not block: it sends a
// request and returns, or runs a task.
type step func(l *process, client int, end func() bool)

// launch starts n clients, with pauses of up to pauseMax between their steps.
func (w *clients) launch(n int, pauseMax time.Duration, do step) {
	w.running = n
	for i := range n {
		w.c.kernel.After(w.rand.Between(0, 20*time.Millisecond), w.name, func() { w.runSteps(i, pauseMax, do, 0) })
	}
}

// runSteps executes a step of a client and schedules the next one. It ends with the faults, or after Turns steps.
func (w *clients) runSteps(client int, pauseMax time.Duration, do step, steps int) {
	if w.c.healed || steps == w.c.options.Turns {
		w.running--
		return
	}
	// All numbers of a step are drawn before it starts, in an order that does not depend on its duration.
	node := w.c.nodes[w.rand.Intn(len(w.c.nodes))]
	pause := w.c.scaled(w.rand.Between(time.Millisecond, pauseMax))
	ended := false
	// The request may end after the patience of its client, which has then begun another step.
	end := func() bool {
		if ended {
			return false
		}
		ended = true
		w.c.kernel.After(pause, w.name, func() { w.runSteps(client, pauseMax, do, steps+1) })
		return true
	}
	l := node.process
	if !l.serves() {
		// The connection was refused. The client pauses, and tries another node in its next step.
		end()
		return
	}
	w.c.kernel.After(operationTimeout+500*time.Millisecond, "patience", func() { end() })
	// A paused process accepts connections, as with SIGSTOP: the step waits until it continues, or until the client
	// gives up.
	l.Do(func() { do(l, client, end) })
}

func (w *clients) idle() bool { return w.running == 0 }

// must executes an operation at a node of a healed cluster, where it may not fail, and waits for it. It skips a node
// that did not start, which was recorded before. It returns whether the operation succeeded. It drives the kernel, so
// it must not be called in an event.
func (c *Cluster) must(n *Node, what string, do func(l *process, done func(error))) bool {
	patience := 10 * time.Second
	if c.options.at("one-row-pages") {
		// A read takes as many requests as there are rows.
		patience = time.Minute
	}
	return c.mustWithin(patience, n, what, do)
}

// mustWithin is must with its own time limit.
func (c *Cluster) mustWithin(patience time.Duration, n *Node, what string, do func(l *process, done func(error))) bool {
	if n.process == nil {
		return false
	}
	ended := false
	var failure error
	// do is called outside of an event. It may end at once, or in one of the events that RunUntil executes.
	do(n.process, func(err error) { ended, failure = true, err })
	if !ended {
		c.kernel.RunUntil(c.kernel.Now()+c.paced(patience), func() bool { return ended })
	}
	switch {
	// A late answer is ignored: the violation is recorded.
	case !ended:
		c.fail("%s at node %d gets no answer in a healed cluster", what, n.id)
	case failure != nil:
		c.fail("%s at node %d fails in a healed cluster: %v", what, n.id, failure)
	}
	return ended && failure == nil
}

// everywhere executes an operation that may not fail at one node after the other. It continues after a failure, so that
// all nodes that fail are reported.
func (c *Cluster) everywhere(what string, do func(l *process, done func(error))) {
	for _, n := range c.present() {
		c.must(n, what, do)
	}
}

// write executes a write as a client of the process does.
func (l *process) write(m *row.Mutation, level ring.Consistency, done func(error)) {
	l.coord.Write(&coordinator.WriteRequest{
		Mutations: []*row.Mutation{m}, Consistency: level, Type: coordinator.WriteSimple, Timeout: operationTimeout,
	}, done)
}

// partition returns the command that reads all rows of a partition.
func (l *process) partition(table *schema.Table, key row.PartitionKey) *row.ReadCommand {
	return &row.ReadCommand{Table: table.StorageID, Key: key, Slices: []row.Slice{row.AllRows()},
		Now: clock{l}.Now().Unix()}
}

// read executes a read as a client of the process does. done is not called if the process ends first.
func (l *process) read(cmd *row.ReadCommand, level ring.Consistency, done func(page []byte, err error)) {
	req := &coordinator.ReadRequest{Command: cmd, Consistency: level, Timeout: operationTimeout}
	// Reads at SERIAL and LOCAL_SERIAL complete unfinished Paxos rounds first, so the proposer executes them.
	if level.IsSerial() {
		l.proposer.Read(req, done)
		return
	}
	l.coord.Read(req, done)
}

// table returns the present version of a table.
func (c *Cluster) table(name string) *schema.Table { return c.metadata().Schema.Table(keyspace, name) }
