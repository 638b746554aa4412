package node

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/integration/cqlclient"
	"cqld/internal/memory"
	"cqld/internal/tier"
	"cqld/node/config"
	"cqld/row"
)

// peakLive calls f and returns the largest live heap during the call, as found by four consecutive garbage collections,
// without the bytes that apart returns. Collections are frequent. Memory allocated during a collection counts as live
// in it, and on a loaded machine two consecutive collections may run long enough for tens of MiB; later collections do
// not find them.
func peakLive(apart func() int64, f func()) (peak int64) {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		var cycle uint64
		var former [3]int64
		for {
			metrics.Read(sample)
			if live, n := int64(sample[0].Value.Uint64()), sample[1].Value.Uint64(); n != cycle {
				live -= apart()
				peak = max(peak, min(live, former[0], former[1], former[2]))
				cycle, former = n, [3]int64{live, former[0], former[1]}
			}
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	f()
	close(stop)
	<-stopped
	return peak
}

// liveNow returns the live heap.
func liveNow() int64 {
	runtime.GC()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return int64(live[0].Value.Uint64())
}

// pebbleHeap returns the bytes of the nodes' block caches and memtables in Go's heap. They have parts of the budget of
// their own, and a build without cgo allocates them there.
func (x *charges) pebbleHeap() (total int64) {
	if !pebbleInGoHeap {
		return 0
	}
	for _, n := range x.r.nodes {
		if p := n.engine.Metrics().Pebble; p != nil {
			total += p.BlockCache.Size + int64(p.MemTable.Size+p.MemTable.ZombieSize)
		}
	}
	return total
}

// charges draws requests of all kinds that take many times their size unless that is bounded.
type charges struct {
	r     *inProcess
	big   string // a value of 8 KiB
	mu    sync.Mutex
	kinds map[string]int
	codes map[string]int
}

const (
	chargePartitions, chargeRows = 6, 24
	levelQuorum, levelAll        = 4, 5
	levelSerial                  = 8
)

func (x *charges) fill(c *cqlclient.Conn) {
	r := x.r
	r.query(c, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
	r.query(c, "CREATE TABLE k.t (k int, c int, v text, tag int, l list<int>, s set<int>, st text static, PRIMARY "+
		"KEY (k, c))")
	r.query(c, "CREATE INDEX ON k.t (tag)")
	r.query(c, "CREATE TABLE k.n (k int PRIMARY KEY, n counter)")
	r.query(c, "CREATE TABLE k.p (a text, b text, c text, v int, PRIMARY KEY ((a, b), c))")
	for k := range chargePartitions {
		for i := range chargeRows {
			r.queryAll(c, fmt.Sprintf("INSERT INTO k.t (k, c, v, tag, l) VALUES (%d, %d, '%s', %d, %s)", k, i, x.big,
				i%4, numbers(200, "[", "]")))
		}
	}
}

// numbers returns a collection of n numbers.
func numbers(n int, begin, end string) string {
	var b strings.Builder
	b.WriteString(begin)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, i)
	}
	return b.String() + end
}

// texts returns a list of n texts of size bytes.
func texts(n, size int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "'%d%s'", i, strings.Repeat("x", size))
	}
	return b.String()
}

// diverge writes a partition's rows to one replica only.
func (x *charges) diverge(r *rand.Rand) {
	node := x.r.nodes[r.IntN(3)]
	table := x.r.nodes[0].cluster.Metadata().Schema.Table("k", "t")
	k := r.IntN(chargePartitions)
	m := new(row.Mutation)
	m.Reset(table.StorageID, row.NewPartitionKey([]byte{0, 0, 0, byte(k)}))
	now := time.Now().UnixMicro()
	for i := range chargeRows {
		w := row.NewRow()
		w.Clustering = table.Column("c").Type.AppendOrdered(nil, []byte{0, 0, 0, byte(i)}, false)
		w.Liveness.Timestamp = now
		w.Cells = append(w.Cells, row.Cell{Column: table.Column("v").ID, Timestamp: now, Value: []byte(x.big)})
		for j := range 200 {
			w.Cells = append(w.Cells, row.Cell{Column: table.Column("s").ID,
				Path: table.Column("s").Type.Elems()[0].AppendOrdered(nil,
					[]byte{0, 0, byte(r.IntN(4)), byte(j)}, false), Timestamp: now, Value: []byte{}})
		}
		w.Sort()
		m.AddRow(w)
	}
	done := make(chan error, 1)
	if err := node.engine.Apply([]*row.Mutation{m}, true, func(err error) { done <- err }); err == nil {
		<-done
	}
}

// draw returns a random request and its kind.
func (x *charges) draw(r *rand.Rand) (kind, text string, o cqlclient.Options) {
	k, c := r.IntN(chargePartitions), r.IntN(chargeRows)
	o.PageSize = []int{0, 100, 5000}[r.IntN(3)]
	o.Consistency = []uint16{1, levelQuorum, levelAll}[r.IntN(3)]
	switch r.IntN(17) {
	case 0:
		return "point", fmt.Sprintf("SELECT * FROM k.t WHERE k = %d AND c = %d", k, c), o
	case 1, 2:
		return "slice", fmt.Sprintf("SELECT * FROM k.t WHERE k = %d", k), o
	case 3:
		return "IN", "SELECT * FROM k.t WHERE k IN (0, 1, 2, 3, 4, 5)", o
	case 4:
		return "search", fmt.Sprintf("SELECT * FROM k.t WHERE tag = %d", c%4), o
	case 5:
		o.Consistency = levelSerial
		return "serial slice", fmt.Sprintf("SELECT * FROM k.t WHERE k = %d", k), o
	case 6:
		o.Consistency = levelSerial
		return "serial point", fmt.Sprintf("SELECT * FROM k.t WHERE k = %d AND c = %d", k, c), o
	case 7:
		return "CAS", fmt.Sprintf("UPDATE k.t SET v = '%s', s = %s WHERE k = %d AND c = %d IF tag != 17", x.big,
			numbers(500, "{", "}"), k, c), o
	case 8:
		var b strings.Builder
		for i := range 200 {
			fmt.Fprintf(&b, "INSERT INTO k.p (a, b, c, v) VALUES ('a', 'b', '%d', %d);", i, i)
		}
		return "batch", "BEGIN UNLOGGED BATCH " + b.String() + " APPLY BATCH", o
	case 9:
		return "counter", fmt.Sprintf("UPDATE k.n SET n = n + 1 WHERE k = %d", c), o
	case 10:
		return "aggregate", "SELECT k, max(v), count(*), min(v) FROM k.t GROUP BY k", o
	case 11:
		return "literals", fmt.Sprintf("SELECT * FROM k.n WHERE k IN %s", numbers(8_000, "(", ")")), o
	case 12:
		return "product", fmt.Sprintf("SELECT * FROM k.p WHERE a IN (%s) AND b IN (%s)", texts(100, 200),
			texts(100, 200)), o
	case 13:
		return "JSON", fmt.Sprintf(`INSERT INTO k.t JSON '{"k": %d, "c": 99, "s": %s}'`, k, numbers(20_000, "[", "]")),
			o
	case 14:
		return "filter", fmt.Sprintf("SELECT k, c FROM k.t WHERE k = %d AND s CONTAINS 77 ALLOW FILTERING", k), o
	case 15:
		return "nulls", "", o
	default:
		return "written product", fmt.Sprintf("UPDATE k.p SET v = 1 WHERE a IN (%s) AND b IN (%s) AND c = '%s'",
			texts(10, 10), texts(8, 10), x.big), o
	}
}

// client sends n random requests, and ends some connections while a request is executed.
func (x *charges) client(seed uint64, n int) {
	r := rand.New(rand.NewPCG(seed, 23))
	var c *cqlclient.Conn
	for range n {
		if c == nil {
			var err error
			if c, err = cqlclient.Dial(x.r.nodes[0].opts.Native().String(), 5); err != nil {
				x.count("", "no connection")
				continue
			}
		}
		if r.IntN(4) == 0 {
			x.diverge(r)
		}
		kind, text, o := x.draw(r)
		if r.IntN(12) == 0 {
			conn := c
			time.AfterFunc(time.Duration(r.IntN(30))*time.Millisecond, func() { conn.Close() })
		}
		var err error
		switch {
		case kind == "nulls":
			err = nulls(c)
		case kind == "literals" && r.IntN(2) == 0:
			_, err = c.Prepare(text)
		default:
			_, err = send(c, text, o)
		}
		var no *refused
		switch {
		case err == nil:
			x.count(kind, "answered")
		case errors.As(err, &no):
			x.count(kind, no.answer.Error())
		default:
			c.Close()
			c = nil
			x.count(kind, "disconnected")
		}
	}
	if c != nil {
		c.Close()
	}
}

// manyNulls are the largest number of values of a statement. All clients share them.
var manyNulls = make([]cqlclient.Value, math.MaxUint16)

// nulls sends a batch of many values, which take 4 bytes each in the request and 32 bytes when a node has decoded them.
// The statements have fewer markers, so the node refuses them after it has decoded the batch.
func nulls(c *cqlclient.Conn) error {
	rows := make([]cqlclient.Statement, 6)
	for i := range rows {
		rows[i] = cqlclient.Statement{Text: "INSERT INTO k.n (k) VALUES (1)", Values: manyNulls}
	}
	a, err := c.Batch(1, rows, cqlclient.Options{})
	if err == nil && a.Err != nil {
		err = &refused{a.Err}
	}
	return err
}

func (x *charges) count(kind, code string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if words := strings.Fields(code); len(words) > 3 { // without figures
		code = strings.Join(words[:3], " ")
	}
	x.kinds[kind+": "+code]++
	x.codes[code]++
}

// Requests of all kinds, with slow replicas and disconnecting clients, keep the live heap below the request memory plus
// a constant. Afterwards nothing is reserved.
func TestRequestsStayWithinTheirMemory(t *testing.T) {
	tier.Long(t)
	const clients = 16
	// The constant covers what nodes hold besides requests: caches of metadata, messages between nodes, and the
	// clients' own requests and results.
	const constant = 32 << 20
	r := openNodes(t, 88, 3, func(o *config.Options) {
		d, err := memory.Divide(512<<20, "test", memory.Figures{BlockCache: 8 << 20, RowCache: -1, Requests: 32 << 20,
			Frame: 4 << 20})
		if err != nil {
			t.Fatal(err)
		}
		o.FS = vfs.Default // data in memory would be counted
		o.Memory.Division, o.ClientLimits.BytesInFlight = d, d.InFlight()
	})
	x := &charges{r: r, big: strings.Repeat("v", 8<<10), kinds: map[string]int{}, codes: map[string]int{}}
	x.fill(r.connect(0))
	requests := 8
	if testing.Short() {
		requests = 4
	}
	before := liveNow() - x.pebbleHeap()
	peak := peakLive(x.pebbleHeap, func() {
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() { x.client(uint64(i), requests) })
		}
		all.Wait()
	})
	t.Logf("live heap %d MiB before, %d MiB at most\n%v\n%v", before>>20, peak>>20, x.kinds, x.codes)
	bound := int64(constant)
	for i, node := range r.nodes {
		pool := node.memory
		r.eventually("nothing is reserved", func() bool { return pool.Used() == 0 })
		s := pool.Stats()
		t.Logf("node %d: %+v", i, s)
		if most := s.Bytes + s.Reserve; s.Peak > most {
			t.Errorf("node %d: %d bytes were reserved of %d", i, s.Peak, most)
		}
		bound += s.Peak
	}
	if peak-before > bound {
		t.Errorf("the live heap has grown by %d MiB, and requests had reserved at most %d MiB",
			(peak-before)>>20, (bound-constant)>>20)
	}
	if x.codes["answered"] < clients*requests/4 {
		t.Errorf("%d of %d requests were answered", x.codes["answered"], clients*requests)
	}
	for code := range x.codes {
		if strings.HasPrefix(code, "SERVER_ERROR") || strings.HasPrefix(code, "PROTOCOL_ERROR") {
			t.Errorf("a request was answered with %s", code)
		}
	}
}
