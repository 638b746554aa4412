package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"cqld/integration/process"
)

// target is one server, or ring of servers, under load. It is used by one goroutine, except that connections read
// addresses.
type target struct {
	name string
	// Of one or several nodes of the same cluster.
	ring      *process.Ring
	addresses []string
	// Prepared statements, nil for Azure Tables. Their ids are the same on all nodes. Set by load.
	ops  *operations
	next int64 // number of the next insert
	// By workload: whether it was executed before a measurement.
	warm    map[string]bool
	startup time.Duration // time until the first answers of all nodes
	idleRSS int64         // of one node
	// It was started here, and is stopped at the end.
	owned bool
}

// startCqld builds cqld and starts nodes. encrypt requires TLS between them. sync is commitlog_sync. With an error,
// no node runs, or the target is returned too, so that the caller stops it.
func startCqld(ctx context.Context, dir string, nodes int, encrypt bool, sync string, flags []string) (*target, error) {
	binary, err := process.Build(ctx, dir)
	if err != nil {
		return nil, err
	}
	name := "cqld"
	if encrypt {
		name = "cqld-tls"
	}
	ring, err := process.NewRing(binary, filepath.Join(dir, name+"-ring"),
		process.Options{Nodes: nodes, Sync: sync, Flags: flags})
	if err != nil {
		return nil, err
	}
	if encrypt {
		if _, err := ring.EncryptInternode(filepath.Join(dir, name+"-certificates")); err != nil {
			return nil, err
		}
	}
	// The build is not part of the start.
	began := time.Now()
	for _, s := range ring.Servers {
		if err := s.Start(); err != nil {
			ring.Stop()
			return nil, err
		}
	}
	if err := ring.Servers[0].WaitAnswer(time.Minute); err != nil {
		ring.Stop()
		return nil, err
	}
	t := &target{name: name, ring: ring, owned: true, startup: time.Since(began)}
	if nodes > 1 {
		if err := ring.WaitAgreed(time.Minute); err != nil {
			ring.Stop()
			return nil, err
		}
		t.startup = time.Since(began)
	}
	// The idle memory is measured when what follows the start has ended.
	time.Sleep(2 * time.Second)
	return t, t.finish()
}

// startOracle starts nodes of the reference Cassandra. tools/oracle must have been set up.
func startOracle(dir string, nodes int, sync string) (*target, error) {
	ring, err := process.NewOracle(filepath.Join(dir, "oracle-ring"), nodes, sync)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := ring.StartOracle(); err != nil {
		return nil, err
	}
	t := &target{name: "oracle", ring: ring, owned: true, startup: time.Since(began)}
	return t, t.finish()
}

// running parses name=host:port/pid,host:port/pid: servers that run already. The process ids are needed for the CPU
// time. For example:
//
//	mine=127.0.0.1:9042/4711,127.0.0.2:9042/4712
func running(spec string) (*target, error) {
	name, list, ok := strings.Cut(spec, "=")
	if !ok {
		return nil, fmt.Errorf("bench: -target %q is not name=host:port/pid,…", spec)
	}
	t := &target{name: name, ring: &process.Ring{}}
	for _, s := range strings.Split(list, ",") {
		address, pid, _ := strings.Cut(s, "/")
		n, err := strconv.Atoi(pid)
		if err != nil {
			return nil, fmt.Errorf("bench: -target %q: no process id after the slash", spec)
		}
		t.ring.Servers = append(t.ring.Servers, &process.Server{Address: address, PID: n})
	}
	return t, t.finish()
}

// finish records the addresses and the idle memory. It must follow the start of all servers.
func (t *target) finish() error {
	t.warm = map[string]bool{}
	for _, s := range t.ring.Servers {
		t.addresses = append(t.addresses, s.Address)
		u, err := s.Usage()
		if err != nil {
			return err
		}
		// The largest of all nodes.
		t.idleRSS = max(t.idleRSS, u.RSS)
	}
	return nil
}

// stop ends the servers that this program has started.
func (t *target) stop() {
	if t.owned {
		t.ring.Stop()
	}
}

// cpu returns the present CPU time of all its processes. It is monotonic as long as no process is restarted.
func (t *target) cpu() (time.Duration, error) {
	var sum time.Duration
	for _, s := range t.ring.Servers {
		u, err := s.Usage()
		if err != nil {
			return 0, err
		}
		sum += u.CPU
	}
	return sum, nil
}

// load creates the schema and the data for reads. The data are about 30 MB: pointRows rows and slicePartitions
// partitions.
func (t *target) load(rf int, consistency uint16) error {
	keyspace := fmt.Sprintf("CREATE KEYSPACE bench WITH replication = {'class': 'SimpleStrategy', "+
		"'replication_factor': %d}", rf)
	// A target that runs already may have data of an earlier run.
	if err := process.Ask(t.addresses[0], append([]string{"DROP KEYSPACE IF EXISTS bench", keyspace},
		schemaStatements...)...); err != nil {
		return err
	}
	var err error
	// A statement must be prepared on the node that executes it. The operations of the last node remain, as ids are the
	// same on all.
	for _, a := range t.addresses {
		if t.ops, err = prepareWhenKnown(a, consistency); err != nil {
			return err
		}
	}
	insert, err := t.ops.workload("insert")
	if err != nil {
		return err
	}
	// 100,000 rows, which take a few seconds.
	if _, err := (&run{addresses: t.addresses, work: insert, inFlight: 64, ops: pointRows,
		limit: 5 * time.Minute}).do(); err != nil {
		return err
	}
	// Later inserts do not overwrite the rows that reads expect.
	t.next = pointRows
	slices := &run{addresses: t.addresses, inFlight: 64, ops: slicePartitions * sliceRows, limit: 5 * time.Minute,
		work: constant(&t.ops.loadSlice)}
	_, err = slices.do()
	return err
}

// schemaWait bounds the time in which Cassandra's gossip informs a node of a new table.
const schemaWait = time.Minute

// prepareWhenKnown prepares on a node that may not know the tables yet. An attempt fails while a table is missing
// there.
func prepareWhenKnown(address string, consistency uint16) (*operations, error) {
	for end := time.Now().Add(schemaWait); ; time.Sleep(200 * time.Millisecond) {
		ops, err := prepare(address, consistency)
		if err == nil || time.Now().After(end) {
			return ops, err
		}
	}
}

// temporary returns a directory for data, on the disk of the working directory: /tmp is in memory on some machines. The
// caller removes it. An in-memory file system would make fsync free.
func temporary() (string, error) {
	root, err := process.Root()
	if err != nil {
		return "", err
	}
	parent := filepath.Join(root, ".tools")
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	return os.MkdirTemp(parent, "bench-")
}
