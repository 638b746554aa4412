//go:build integration

package integration

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// contention is a load of conditional batches: its clients use the coordinators round robin, and change a few
// partitions of a table with three replicas. Every batch inserts a unique row IF NOT EXISTS, and updates a row that all
// batches of the partition share. The condition always holds, so the existing rows show which batches were applied.
type contention struct {
	t     *testing.T
	ring  *process.Ring
	table string

	next atomic.Int64 // numbers the batches
	mu   sync.Mutex
	made map[int32]map[int64]bool // by partition: rows that were acknowledged
	// unknown contains the rows of batches with an error that leaves the outcome open; refused contains those of
	// batches that were certainly not applied.
	unknown, refused map[int32]map[int64]bool
}

// contentionRun contains the measurements of one run of the load.
type contentionRun struct {
	batches int
	took    time.Duration
	latency []time.Duration
	unknown int // answered CAS_WRITE_UNKNOWN
	expired int // answered WRITE_TIMEOUT (CAS): certainly not applied
	other   int // other errors
	silent  int // errors of any kind that report zero responses
	samples []string
}

// envNumber returns the number in an environment variable, or the default.
func envNumber(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// startContention starts a ring and creates the tables. CQLD_CONTENTION_BINARY selects another build of cqld to
// measure.
func startContention(t *testing.T, nodes int) *contention {
	t.Helper()
	binary, dir := cqld(t)
	binary = cmp.Or(os.Getenv("CQLD_CONTENTION_BINARY"), binary)
	r, err := process.NewRing(binary, dir+"/"+t.Name(), process.Options{Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(ringStart); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	w := &contention{t: t, ring: r, table: "contention.rows",
		made: map[int32]map[int64]bool{}, unknown: map[int32]map[int64]bool{}, refused: map[int32]map[int64]bool{}}
	if err := process.Ask(r.Servers[0].Address,
		"CREATE KEYSPACE contention WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
		"CREATE TABLE contention.rows (p int, c bigint, v bigint, PRIMARY KEY (p, c))",
		"CREATE TABLE contention.plain (p int, c bigint, v bigint, PRIMARY KEY (p, c))"); err != nil {
		t.Fatal(err)
	}
	return w
}

// contentionClient is one client: a connection to each node that it uses, with the prepared statements.
type contentionClient struct {
	conns           []*cqlclient.Conn
	insert, update  []*cqlclient.Prepared
	plain, plainTwo []*cqlclient.Prepared
}

func (w *contention) client(addresses []string) (*contentionClient, error) {
	k := &contentionClient{}
	for _, address := range addresses {
		c, err := cqlclient.Dial(address, 5)
		if err != nil {
			return nil, err
		}
		k.conns = append(k.conns, c)
		for text, to := range map[string]*[]*cqlclient.Prepared{
			"INSERT INTO contention.rows (p, c, v) VALUES (?, ?, ?) IF NOT EXISTS": &k.insert,
			"UPDATE contention.rows SET v = ? WHERE p = ? AND c = -1":              &k.update,
			"INSERT INTO contention.plain (p, c, v) VALUES (?, ?, ?)":              &k.plain,
			"UPDATE contention.plain SET v = ? WHERE p = ? AND c = -1":             &k.plainTwo,
		} {
			a, err := c.Prepare(text)
			if err != nil || a.Err != nil {
				return nil, fmt.Errorf("%s: %v %v", text, err, a)
			}
			*to = append(*to, a.Prepared)
		}
	}
	return k, nil
}

func (k *contentionClient) close() {
	for _, c := range k.conns {
		c.Close()
	}
}

func int32Value(v int32) cqlclient.Value {
	return cqlclient.Value{Bytes: binary.BigEndian.AppendUint32(nil, uint32(v))}
}

func int64Value(v int64) cqlclient.Value {
	return cqlclient.Value{Bytes: binary.BigEndian.AppendUint64(nil, uint64(v))}
}

// QUORUM and SERIAL in the native protocol.
const wireQuorum, wireSerial = 4, 8

// batch executes one batch through a node.
func (k *contentionClient) batch(node int, conditional bool, partition int32, number int64) (*cqlclient.Answer, error) {
	insert, update := k.insert[node], k.update[node]
	if !conditional {
		insert, update = k.plain[node], k.plainTwo[node]
	}
	kind := byte(1)
	return k.conns[node].Batch(kind, []cqlclient.Statement{
		{ID: insert.ID, Values: []cqlclient.Value{int32Value(partition), int64Value(number), int64Value(number)}},
		{ID: update.ID, Values: []cqlclient.Value{int64Value(number), int32Value(partition)}},
	}, cqlclient.Options{Consistency: wireQuorum, Serial: wireSerial})
}

// run makes clients execute a number of batches, or fewer if the time limit is reached.
func (w *contention) run(addresses []string, conditional bool, clients, partitions, batches int,
	limit time.Duration) *contentionRun {
	w.t.Helper()
	r := &contentionRun{}
	var work sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(batches))
	all := make([]*contentionClient, clients) // connect before the time starts: on a busy machine it takes seconds
	for i := range all {
		k, err := w.client(addresses)
		if err != nil {
			w.t.Fatal(err)
		}
		all[i] = k
	}
	began := time.Now()
	for i, k := range all {
		work.Go(func() {
			defer k.close()
			for n := i; left.Add(-1) >= 0 && time.Since(began) < limit; n++ {
				number := w.next.Add(1)
				partition := int32(number % int64(partitions))
				at := time.Now()
				a, err := k.batch(n%len(addresses), conditional, partition, number)
				w.note(r, conditional, partition, number, time.Since(at), a, err)
				if err != nil {
					return // the connection broke
				}
			}
		})
	}
	work.Wait()
	r.took = time.Since(began)
	slices.Sort(r.latency)
	return r
}

func (w *contention) note(r *contentionRun, conditional bool, partition int32, number int64, took time.Duration,
	a *cqlclient.Answer, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.batches++
	r.latency = append(r.latency, took)
	to := w.made
	switch {
	case err != nil:
		r.other++
		to = w.unknown
	case a.Err == nil && conditional && (len(a.Rows) == 0 || len(a.Rows[0]) == 0 || len(a.Rows[0][0]) != 1 ||
		a.Rows[0][0][0] != 1):
		w.t.Errorf("batch %d of partition %d was not applied, though its condition holds", number, partition)
		to = w.refused
	case a.Err == nil:
	case a.Err.Code == cqlclient.CodeCASUnknown:
		r.unknown++
		to = w.unknown
		if !strings.Contains(a.Err.Fields, "received=0 ") && !strings.Contains(a.Err.Fields, "received=1 ") {
			w.t.Errorf("an answer whose counts contradict its text: %v", a.Err)
		}
	case a.Err.Code == cqlclient.CodeWriteTimeout && strings.Contains(a.Err.Fields, "type=CAS"):
		r.expired++
		to = w.refused
	default:
		r.other++
		to = w.unknown
	}
	if err == nil && a.Err != nil {
		err = a.Err
		if strings.Contains(a.Err.Fields, "received=0 ") {
			r.silent++
		}
	}
	if err != nil && len(r.samples) < 5 {
		r.samples = append(r.samples, fmt.Sprintf("after %v: %v", took.Round(time.Millisecond), err))
	}
	if conditional {
		if to[partition] == nil {
			to[partition] = map[int64]bool{}
		}
		to[partition][number] = true
	}
}

func (r *contentionRun) quantile(q float64) time.Duration {
	if len(r.latency) == 0 {
		return 0
	}
	return r.latency[int(q*float64(len(r.latency)-1))].Round(100 * time.Microsecond)
}

func (r *contentionRun) String() string {
	s := fmt.Sprintf("%d batches in %v, %.0f a second, p50 %v, p99 %v, p99.9 %v, most %v; %d unknown, %d timeouts, "+
		"%d other errors",
		r.batches, r.took.Round(time.Millisecond), float64(r.batches)/r.took.Seconds(), r.quantile(0.5),
		r.quantile(0.99), r.quantile(0.999), r.quantile(1),
		r.unknown, r.expired, r.other)
	for _, x := range r.samples {
		s += "\n\t" + x
	}
	return s
}

// stallRuns bounds the repetitions of a load because of stalls of the machine.
const stallRuns = 3

// unlessStalled calls run, which returns a description of a failure, if any. It calls it again if a process or disk of
// servers stalled meanwhile: requests that need that node then fail, and rates are meaningless.
func (w *contention) unlessStalled(servers []*process.Server, run func() (failure string)) {
	w.t.Helper()
	for n := 1; ; n++ {
		before := stalls(servers)
		failure := run()
		if failure != "" {
			time.Sleep(noticed) // a stall is logged when it ends
		}
		stalled := stalls(servers) - before
		if stalled == 0 || n == stallRuns {
			if failure != "" {
				w.t.Error(failure)
			}
			return
		}
		w.t.Logf("nodes logged %d stalls of their processes or disks; %s. Again.", stalled,
			cmp.Or(failure, "nothing failed"))
	}
}

// stalls counts what servers logged about stalls of a second or more.
func stalls(servers []*process.Server) (n int) {
	for _, s := range servers {
		log := s.Log()
		n += strings.Count(log, "process stalled") + strings.Count(log, "slow disk delayed writes")
	}
	return n
}

// verify reads all rows: acknowledged ones must exist, refused ones must not.
func (w *contention) verify() {
	w.t.Helper()
	server := w.ring.Servers[slices.IndexFunc(w.ring.Servers, (*process.Server).Running)]
	c, err := cqlclient.Dial(server.Address, 5)
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	happened := 0
	for _, p := range slices.Sorted(maps.Keys(w.made)) {
		found := map[int64]bool{}
		var state []byte
		for {
			a, err := c.Query(fmt.Sprintf("SELECT c FROM %s WHERE p = %d", w.table, p),
				cqlclient.Options{Consistency: wireQuorum, PageSize: 5000, PagingState: state})
			if err != nil || a.Err != nil {
				w.t.Fatal(err, a)
			}
			for _, row := range a.Rows {
				found[int64(binary.BigEndian.Uint64(row[0]))] = true
			}
			if state = a.PagingState; state == nil {
				break
			}
		}
		for n := range w.made[p] {
			if !found[n] {
				w.t.Errorf("batch %d of partition %d was acknowledged, and its row is missing", n, p)
			}
		}
		for n := range w.refused[p] {
			if found[n] {
				w.t.Errorf("batch %d of partition %d was reported as not applied, but its row exists", n, p)
			}
		}
		for n := range w.unknown[p] {
			if found[n] {
				happened++
			}
		}
	}
	w.t.Logf("%d of the batches in doubt were applied", happened)
}

// busyCPU occupies the processors with n processes until stop is called.
func busyCPU(t *testing.T, n int) (stop func()) {
	t.Helper()
	var all []*exec.Cmd
	for range n {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	stop = sync.OnceFunc(func() {
		for _, cmd := range all {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	t.Cleanup(stop)
	return stop
}
