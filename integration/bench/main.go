package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// config configures the measurements of CQL. Its fields are described by the flags in parse. The fields are not changed
// after parse, except that targets replace what would be started.
type config struct {
	// Nodes to be started; 0 means none.
	cqld, oracle int
	encrypted    int // nodes of cqld with TLS between them
	// Servers that run already, which replace the ones to be started.
	targets []string
	// For cqld and Cassandra alike, so that both acknowledge the same durability. batch acknowledges after fsync,
	// periodic before it.
	sync      string
	flags     string
	workloads []string
	inFlight  []int
	// Operations: of a warm-up, and of one measurement at most. A measurement ends at ops or at limit, whichever is
	// first.
	warmup, ops int64
	limit       time.Duration
	rounds      int
	// 0 means the number of nodes.
	rf   int
	json bool
	// The directories of data, for an inspection afterwards.
	keep bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := measureProtocol(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// measureProtocol measures the protocol in the first argument: Azure Tables, or CQL by default. main prints its error.
func measureProtocol(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "tables" {
		c, err := parseTables(args[1:])
		if err != nil {
			return err
		}
		return c.run(ctx)
	}
	c, err := parse(args)
	if err != nil {
		return err
	}
	return c.run(ctx)
}

// parse parses the flags for CQL. An error of the flags is printed by package flag, too.
func parse(args []string) (*config, error) {
	c := &config{}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.IntVar(&c.cqld, "cqld", 1, "how many cqld nodes to start")
	f.IntVar(&c.oracle, "oracle", 1, "how many Cassandra nodes to start, to compare with")
	f.IntVar(&c.encrypted, "tls", 0, "how many cqld nodes to start with TLS between them")
	f.Func("target", "servers that run already: name=host:port/pid,host:port/pid; may be given several times",
		func(s string) error {
			c.targets = append(c.targets, s)
			return nil
		})
	f.StringVar(&c.sync, "sync", "batch", "commitlog_sync of the nodes started: batch or periodic")
	f.StringVar(&c.flags, "cqld-flags", "", "more flags for cqld start, separated by blanks")
	workloads := f.String("workloads", "insert,read,slice,mixed",
		"what to measure: insert, read, slice, mixed, once (IF NOT EXISTS), counter, batch")
	inFlight := f.String("in-flight", "64,256", "requests in flight")
	f.Int64Var(&c.warmup, "warmup", 300_000, "operations before each workload is measured first")
	f.Int64Var(&c.ops, "ops", 200_000, "operations of one measurement, at most")
	f.DurationVar(&c.limit, "limit", 20*time.Second, "time of one measurement, at most")
	f.IntVar(&c.rounds, "rounds", 3, "how many times each measurement is taken, the servers by turns")
	// At replication factor 4, QUORUM is 3.
	f.IntVar(&c.rf, "rf", 0, "replication factor; 0: the number of nodes. Above 1, requests are at QUORUM")
	f.BoolVar(&c.json, "json", false, "print one JSON object for each measurement")
	f.BoolVar(&c.keep, "keep", false, "keep the data directories")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	c.workloads = strings.Split(*workloads, ",")
	for _, s := range strings.Split(*inFlight, ",") {
		n, err := strconv.Atoi(s)
		// Streams are numbers of 15 bits, and perConnection bounds them further.
		if err != nil || n < 1 || n > 32000 {
			return nil, fmt.Errorf("bench: -in-flight %q", s)
		}
		c.inFlight = append(c.inFlight, n)
	}
	return c, nil
}

// constant returns the workload of a single operation. It draws no number.
func constant(o *operation) workload { return func(int64, *rand.Rand) *operation { return o } }

// run starts the servers, measures them by turns and stops them. One process of each node runs during the whole time,
// whichever server is measured; idle servers cost little.
func (c *config) run(ctx context.Context) error {
	dir, err := temporary()
	if err != nil {
		return err
	}
	if !c.keep {
		defer os.RemoveAll(dir)
	}
	targets, err := c.start(ctx, dir)
	// Also after an error of start, which may have started some of them.
	defer func() {
		for _, t := range targets {
			t.stop()
		}
	}()
	if err != nil {
		return err
	}
	out := report{json: c.json}
	out.begin(targets)
	// Rounds are the outer loop, so that a slow drift of the machine appears as a difference between rounds.
	for round := range c.rounds {
		for _, name := range c.workloads {
			for _, n := range c.inFlight {
				// The servers alternate within each measurement, so that changes of the machine's speed affect all of
				// them.
				for _, t := range targets {
					if ctx.Err() != nil {
						return ctx.Err()
					}
					m, err := c.measure(t, name, n)
					if err != nil {
						return fmt.Errorf("%s %s@%d: %w", t.name, name, n, err)
					}
					m.Round = round + 1
					out.add(m)
				}
			}
		}
	}
	out.end()
	return nil
}

// start starts or names the servers and loads their data. With an error, it returns the targets that were started. The
// caller stops them.
func (c *config) start(ctx context.Context, dir string) ([]*target, error) {
	var targets []*target
	// add keeps a target even when its start failed half-way.
	add := func(t *target, err error) error {
		if t != nil {
			targets = append(targets, t)
		}
		return err
	}
	// Servers that run already exclude all others: the flags have defaults.
	if len(c.targets) > 0 {
		c.cqld, c.oracle, c.encrypted = 0, 0, 0
	}
	if c.cqld > 0 {
		if err := add(startCqld(ctx, dir, c.cqld, false, c.sync, strings.Fields(c.flags))); err != nil {
			return targets, err
		}
	}
	if c.encrypted > 0 {
		if err := add(startCqld(ctx, dir, c.encrypted, true, c.sync, strings.Fields(c.flags))); err != nil {
			return targets, err
		}
	}
	if c.oracle > 0 {
		if err := add(startOracle(dir, c.oracle, c.sync)); err != nil {
			return targets, err
		}
	}
	for _, spec := range c.targets {
		if err := add(running(spec)); err != nil {
			return targets, err
		}
	}
	for _, t := range targets {
		if err := t.load(c.replication(t), c.consistency(t)); err != nil {
			return targets, fmt.Errorf("%s: load: %w", t.name, err)
		}
	}
	return targets, nil
}

// replication returns the replication factor of the keyspace. With one node it is 1.
func (c *config) replication(t *target) int {
	if c.rf > 0 {
		return c.rf
	}
	return len(t.addresses)
}

// consistency returns ONE with a single replica, QUORUM otherwise. 1 is ONE and 4 is QUORUM in the protocol.
func (c *config) consistency(t *target) uint16 {
	if c.replication(t) == 1 {
		return 1
	}
	return 4
}

// measure takes one measurement, the first time after a warm-up with the same workload. CPU times are differences of
// two readings, so what servers do in the background, such as compactions, counts.
func (c *config) measure(t *target, name string, inFlight int) (*measurement, error) {
	work, err := t.ops.workload(name)
	if err != nil {
		return nil, err
	}
	// Once for each workload and server: later rounds find caches and compiled code as they are. The warm-up uses the
	// largest number in flight.
	if !t.warm[name] {
		t.warm[name] = true
		if _, err := t.do(work, slices.Max(c.inFlight), c.warmup, 5*time.Minute); err != nil {
			return nil, err
		}
	}
	// The client's own time shows whether it was the bottleneck.
	own, err1 := ownCPU()
	before, err2 := t.cpu()
	o, err := t.do(work, inFlight, c.ops, c.limit)
	if err != nil {
		return nil, err
	}
	after, err3 := t.cpu()
	ownAfter, err4 := ownCPU()
	// The first error; the others usually have the same cause.
	for _, e := range []error{err1, err2, err3, err4} {
		if e != nil {
			return nil, e
		}
	}
	return newMeasurement(t.name, name, inFlight, o, after-before, ownAfter-own), nil
}

// do executes a workload; inserts continue with new ids. After an error the target may have some of the rows.
func (t *target) do(work workload, inFlight int, ops int64, limit time.Duration) (*outcome, error) {
	r := &run{addresses: t.addresses, work: work, inFlight: inFlight, ops: ops, limit: limit, first: t.next}
	o, err := r.do()
	// By the maximum, not by the number of requests that were sent: ids need not be dense, but must not repeat.
	t.next += ops
	return o, err
}
