package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"cqld/azuretables"
	"cqld/azuretables/client"
	"cqld/integration/process"
)

// tablesConfig configures the measurements for Azure Tables: every workload at every number in flight on a table with
// the fewest rows, and at one number in flight with the other numbers of rows. The matrix is workloads × spreads ×
// rows, with several numbers in flight only for the fewest rows.
type tablesConfig struct {
	// Or name=host:port/pid.
	servers   []string // cqld1, cqld4, azurite
	workloads []string
	// Whether the entities are in one partition or in many.
	spreads  []string // one, many
	inFlight []int
	grown    int // in flight, with more rows
	// Ascending; the first is the least number. At least pageSize, so that a page is full.
	rows   []int
	ops    int64
	limit  time.Duration
	rounds int
	sync   string
	// As in report.
	json bool
}

// parseTables parses the flags for Azure Tables. Numbers of rows are sorted.
func parseTables(args []string) (*tablesConfig, error) {
	c := &tablesConfig{}
	f := flag.NewFlagSet("bench tables", flag.ContinueOnError)
	servers := f.String("servers", "cqld1,cqld4,cqld4via1,azurite",
		"what to start: one durable node; a ring of four at quorum 3, asked at all its nodes; the same, asked at "+
			"one, as a program with one connection string does; Azurite; or servers that run already, as "+
			"name=host:port/pid")
	workloads := f.String("workloads", "insert,upsert,point,batch,page", "what to measure")
	spreads := f.String("partitions", "one,many", "entities in one partition, in a hundred")
	inFlight := f.String("in-flight", "1,16,64", "requests in flight, with the least rows")
	f.IntVar(&c.grown, "grown-in-flight", 16, "requests in flight, with more rows")
	rows := f.String("rows", "1000,10000,40000", "rows present")
	f.Int64Var(&c.ops, "ops", 4000, "operations of one measurement, at most")
	f.DurationVar(&c.limit, "limit", 1500*time.Millisecond, "time of one measurement, at most")
	f.IntVar(&c.rounds, "rounds", 2, "how many times all is measured, on fresh tables")
	f.StringVar(&c.sync, "sync", "batch", "commitlog_sync of cqld: batch or periodic")
	f.BoolVar(&c.json, "json", false, "print one JSON object for each measurement")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	c.servers, c.workloads, c.spreads = strings.Split(*servers, ","), strings.Split(*workloads, ","),
		strings.Split(*spreads, ",")
	var err1, err2 error
	c.inFlight, err1 = numbers(*inFlight)
	c.rows, err2 = numbers(*rows)
	if err1 != nil || err2 != nil || c.grown < 1 || c.rounds < 1 {
		return nil, fmt.Errorf("bench: -in-flight %q, -rows %q, -grown-in-flight %d, -rounds %d", *inFlight, *rows,
			c.grown, c.rounds)
	}
	// Tables are filled step by step, so they can only grow.
	slices.Sort(c.rows)
	if c.rows[0] < pageSize {
		return nil, fmt.Errorf("bench: -rows: a page needs %d", pageSize)
	}
	return c, nil
}

// numbers parses positive numbers, separated by commas. A million bounds them, against typing errors.
func numbers(list string) ([]int, error) {
	var out []int
	for _, s := range strings.Split(list, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 1_000_000 {
			return nil, fmt.Errorf("bench: %q is no number", s)
		}
		out = append(out, n)
	}
	return out, nil
}

// run starts the servers, measures them by turns and stops them. An interrupt ends the run between two measurements.
func (c *tablesConfig) run(ctx context.Context) error {
	dir, err := temporary()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var targets []*target
	// Servers that were not started here are left alone by Stop.
	defer func() {
		for _, t := range targets {
			t.ring.Stop()
		}
	}()
	for _, name := range c.servers {
		// Such a target names a ring that was started before it.
		t := via1(targets, name)
		if t == nil {
			if t, err = c.start(ctx, dir, name); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		targets = append(targets, t)
	}
	out := &tablesReport{json: c.json}
	out.begin()
	for round := range c.rounds {
		for _, spread := range c.spreads {
			if err := c.measureSpread(ctx, targets, round, spread, out); err != nil {
				return err
			}
		}
	}
	out.end()
	return nil
}

// via1 returns an existing ring that is accessed at its first node; nil if name is not such a target. Its servers are
// counted in the CPU time in full, as the operations need all of them.
func via1(targets []*target, name string) *target {
	ring, ok := strings.CutSuffix(name, "via1")
	for _, t := range targets {
		if ok && t.name == ring {
			return &target{name: name, ring: t.ring, addresses: t.addresses[:1]}
		}
	}
	return nil
}

// start starts a server, unless it runs already; its address is its Azure Tables port. A node runs with the options of
// a durable server: commitlog_sync is batch unless the flag says otherwise.
func (c *tablesConfig) start(ctx context.Context, dir, name string) (*target, error) {
	if strings.Contains(name, "=") {
		return running(name)
	}
	t := &target{name: name, owned: true}
	var err error
	// It is no node of cqld: it is ready when its port is open.
	if name == "azurite" {
		if t.ring, err = process.NewAzurite(dir); err != nil {
			return nil, err
		}
		err = t.ring.Servers[0].Start()
		// cqldN starts N nodes.
	} else {
		nodes, ok := strings.CutPrefix(name, "cqld")
		n, bad := strconv.Atoi(nodes)
		if !ok || bad != nil || n < 1 {
			return nil, fmt.Errorf("bench: -servers: there are cqld1, cqld4, behind it cqld4via1, and azurite")
		}
		var binary string
		if binary, err = process.Build(ctx, dir); err != nil {
			return nil, err
		}
		if t.ring, err = process.NewRing(binary, filepath.Join(dir, name),
			process.Options{Nodes: n, Sync: c.sync}); err != nil {
			return nil, err
		}
		// All nodes agree before the first table is created.
		err = t.ring.Start(time.Minute)
	}
	if err != nil {
		return nil, err
	}
	for _, s := range t.ring.Servers {
		if err := s.WaitTables(time.Minute); err != nil {
			t.ring.Stop()
			return nil, err
		}
		// host:port, as the connections of this program need it.
		t.addresses = append(t.addresses, strings.TrimPrefix(s.Tables, "http://"))
	}
	return t, nil
}

// measureSpread fills a new table of each server step by step, and measures the servers alternately after each step. A
// round has tables of its own, so that tombstones and compactions of earlier rounds do not count. The order is:
//
//	for each number of rows             fill all targets up to it
//	  for each workload and in flight     measure all targets, one after the other
//
// A change of the machine's speed then affects neighbouring measurements, which are the compared ones.
func (c *tablesConfig) measureSpread(ctx context.Context, targets []*target, round int, spread string,
	out *tablesReport) error {
	tables := map[*target]*spreadTable{}
	for _, t := range targets {
		// The name contains the target: one ring may be two targets.
		s := &spreadTable{name: fmt.Sprintf("Bench%s%d%s", spread, round, t.name), many: spread == "many"}
		if err := t.table(ctx, "POST", "/Tables", `{"TableName":"`+s.name+`"}`); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		// Deleted after an interrupt, too: servers that ran already keep their data. Its error is not reported: the
		// measurement is complete.
		defer t.table(context.WithoutCancel(ctx), "DELETE", "/Tables('"+s.name+"')", "")
		tables[t] = s
	}
	for i, rows := range c.rows {
		for _, t := range targets {
			// Up to the next number of rows.
			if err := t.fill(tables[t], rows); err != nil {
				return fmt.Errorf("%s: load: %w", t.name, err)
			}
		}
		// All numbers in flight are measured with the fewest rows only, which bounds the time.
		inFlight := []int{c.grown}
		if i == 0 {
			inFlight = c.inFlight
		}
		for _, name := range c.workloads {
			for _, n := range inFlight {
				for _, t := range targets {
					if ctx.Err() != nil {
						return ctx.Err()
					}
					m, err := c.measure(ctx, t, tables[t], name, n)
					if err != nil {
						return fmt.Errorf("%s %s@%d: %w", t.name, name, n, err)
					}
					m.Partitions, m.Rows, m.Round = spread, rows, round+1
					out.add(m)
				}
			}
		}
	}
	return nil
}

// table creates or deletes a table. Only creation and deletion use the client of package azuretables/client; measured
// requests are encoded here.
func (t *target) table(ctx context.Context, method, path, body string) error {
	c, err := client.New("http://"+t.addresses[0], azuretables.DevelopmentAccount, azuretables.DevelopmentKey, 1)
	if err != nil {
		return err
	}
	defer c.Close()
	r, err := c.Do(ctx, client.Request{Method: method, Path: path, Body: []byte(body)})
	if err != nil {
		return err
	}
	return r.Err(201, 204)
}

// fill adds rows to a table up to a number. With many partitions it uses single inserts, because a transaction has only
// one partition. It returns at once if inserts that were measured have filled the table already.
func (t *target) fill(s *spreadTable, rows int) error {
	// Measured inserts have added rows as well.
	missing := int64(rows) - s.rows.Load()
	if missing <= 0 {
		return nil
	}
	// 16 in flight and 5 minutes for at most a million rows.
	run := &tablesRun{addresses: t.addresses, inFlight: 16, ops: missing, limit: 5 * time.Minute}
	name := "insert"
	if !s.many {
		// A hundred rows in each request.
		name, run.ops, run.inFlight = "batch", (missing+batchSize-1)/batchSize, 4
	}
	var err error
	if run.op, err = tablesWork(name, s); err != nil {
		return err
	}
	o, err := run.do()
	// The loop ends without an error when its time is over. Elapsed exceeds limit only if the loop was cut off.
	if err == nil && o.Elapsed > run.limit {
		err = fmt.Errorf("bench: %d of %d operations in %v", o.Ops, run.ops, o.Elapsed)
	}
	return err
}

// measure takes one measurement. Transactions use a separate table, so that the other one does not grow. Each
// measurement has a warm-up of 200 operations.
func (c *tablesConfig) measure(ctx context.Context, t *target, s *spreadTable, name string,
	inFlight int) (*tablesMeasurement, error) {
	on := s
	if name == "batch" {
		on = &spreadTable{name: s.name + "Batch", many: s.many}
		if err := t.table(ctx, "POST", "/Tables", `{"TableName":"`+on.name+`"}`); err != nil {
			return nil, err
		}
		defer t.table(context.WithoutCancel(ctx), "DELETE", "/Tables('"+on.name+"')", "")
	}
	op, err := tablesWork(name, on)
	if err != nil {
		return nil, err
	}
	// The first operations of a kind are slower, because they create plans, columns and Azurite's compiled code.
	if _, err := (&tablesRun{addresses: t.addresses, op: op, inFlight: inFlight, ops: 200,
		// A third of the time, so that a slow server is not warmed longer than measured.
		limit: c.limit / 3}).do(); err != nil {
		return nil, err
	}
	// After the warm-up.
	before, err1 := t.cpu()
	o, err2 := (&tablesRun{addresses: t.addresses, op: op, inFlight: inFlight, ops: c.ops, limit: c.limit}).do()
	after, err3 := t.cpu()
	for _, e := range []error{err1, err2, err3} {
		if e != nil {
			return nil, e
		}
	}
	// Client CPU is not reported: signing alone would dominate it.
	return newTablesMeasurement(t.name, name, inFlight, op.entities, o, after-before), nil
}
