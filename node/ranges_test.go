package node

import (
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/internal/await"
	"cqld/node/control"
	"cqld/ring"
)

// zipfLoad writes and reads k.t with a Zipf distribution of keys until stop is closed: key 0 is the most frequent.
func zipfLoad(t *testing.T, c *cqlclient.Conn, seed uint64, stop chan struct{}) {
	r := rand.New(rand.NewPCG(seed, 1))
	z := rand.NewZipf(r, 1.3, 1, 10_000)
	for {
		select {
		case <-stop:
			return
		default:
		}
		key := z.Uint64()
		q := fmt.Sprintf("SELECT v FROM k.t WHERE a = %d", key)
		if r.IntN(4) == 0 {
			q = fmt.Sprintf("INSERT INTO k.t (a, v) VALUES (%d, 1)", key)
		}
		if _, err := send(c, q, cqlclient.Options{}); err != nil {
			t.Errorf("%s: %v", q, err)
			return
		}
	}
}

// TestSkewedLoadIsFound makes requests with a Zipf distribution to a ring of three nodes with two replicas. Within five
// seconds, every node names the hottest range and key, also the node that has no replica of it, and knows the loads of
// all nodes.
func TestSkewedLoadIsFound(t *testing.T) {
	r := openNodes(t, 143, 3, nil)
	r.fill(r.connect(0), "2", 1)
	hot := ring.Murmur3([]byte{0, 0, 0, 0})
	stop, ended := make(chan struct{}), make(chan struct{}, 3)
	for i := range 3 {
		c := r.connect(i)
		go func() {
			zipfLoad(t, c, uint64(i), stop)
			ended <- struct{}{}
		}()
	}
	began := time.Now()
	for i, n := range r.nodes {
		var got control.RangeLoads
		if !await.Reached(30*time.Second, func() bool {
			var err error
			if got, err = n.commands.Ranges.Load(t.Context(), control.RangesArgs{Limit: 1}, nil); err != nil {
				t.Fatal(err)
			}
			return r.showsHotRange(n, got, hot)
		}) {
			t.Fatalf("node %d shows %+v", i+1, got)
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the hot range was found after %v", took)
	}
	close(stop)
	for range 3 {
		<-ended
	}
	r.checkRangesTable(hot)
	r.checkRangeMetrics()
}

// showsHotRange reports whether a node shows the range of the key 0 as the busiest one, names the key if it is a
// replica, and shows that all nodes have load.
func (r *inProcess) showsHotRange(n *Node, got control.RangeLoads, hot ring.Token) bool {
	r.t.Helper()
	if len(got.Ranges) == 0 || got.Ranges[0].Hottest == nil {
		return false
	}
	holds := n.cluster.Metadata().Topology.Placement(ring.Replication{Class: ring.Simple, Factor: 2}).Replicas(hot).
		Contains(n.cluster.Self())
	share := 0.0
	for _, x := range got.Nodes {
		share += x.Share
		if !x.Reported || x.Charge <= 0 || x.Ranges == 0 || x.Writes <= 0 || x.CPU <= 0 {
			return false
		}
	}
	if share < 0.99 || share > 1.01 {
		r.t.Errorf("node %v shows shares of %v in all", n.cluster.Self(), share)
	}
	x, h := got.Ranges[0], got.Ranges[0].Hottest
	return ring.Range{Start: ring.Token(x.Start), End: ring.Token(x.End)}.Contains(hot) && h.Keyspace == "k" &&
		h.Table == "t" && h.Token == int64(hot) && (h.Key == "0" || !holds)
}

// checkRangesTable reads system_views.ranges at a node that has the key hot.
func (r *inProcess) checkRangesTable(hot ring.Token) {
	r.t.Helper()
	found := false
	for i := range r.nodes {
		c := r.connect(i)
		a := r.query(c, "SELECT range_start, range_end, nodes, size_on_disk, reads_per_second, writes_per_second, "+
			"charge_per_second, charge_per_second_2m, charge_share, hottest_keyspace, hottest_table, hottest_key, "+
			"hottest_token, hottest_share FROM system_views.ranges")
		if len(a.Rows) != 3*8 {
			r.t.Errorf("node %d: system_views.ranges has %d rows, want one for each token", i+1, len(a.Rows))
		}
		found = found || slices.ContainsFunc(a.Rows, func(row [][]byte) bool { return string(row[11]) == "0" })
	}
	if !found {
		r.t.Errorf("system_views.ranges has no row with the hottest key of token %v", hot)
	}
}

// checkRangeMetrics reads the metrics of the first node.
func (r *inProcess) checkRangeMetrics() {
	r.t.Helper()
	page := httptest.NewRecorder()
	r.nodes[0].metrics.Page().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for name, least := range map[string]float64{"cqld_ring_range_reads_total": 1, "cqld_ring_range_writes_total": 1,
		"cqld_ring_range_charge_total": 1, "cqld_ring_ranges": 1, "cqld_ring_load_nodes": 3,
		"cqld_ring_load_imbalance_ratio": 0.01, "cqld_ring_range_hottest_ratio": 0.05,
		"cqld_ring_load_reports_refused_total": 0} {
		found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(page.Body.String())
		if found == nil {
			r.t.Errorf("the metrics lack %s", name)
			continue
		}
		if value, err := strconv.ParseFloat(found[1], 64); err != nil || value < least {
			r.t.Errorf("%s is %s, want at least %v", name, found[1], least)
		}
	}
}

// TestBytesOfRangesAreMeasured writes rows, flushes them, and adds a node: the bytes of a node's ranges are the size of
// the table in them, also after the ring has changed.
func TestBytesOfRangesAreMeasured(t *testing.T) {
	r := openNodes(t, 144, 1, nil)
	c := r.connect(0)
	r.fill(c, "1", 0)
	r.query(c, "CREATE TABLE k.blobs (a int PRIMARY KEY, v blob)")
	for i := range 400 {
		r.query(c, fmt.Sprintf("INSERT INTO k.blobs (a, v) VALUES (%d, 0x%0*x)", i, 4000, i+1))
	}
	n := r.nodes[0]
	if err := n.engine.Flush(); err != nil {
		t.Fatal(err)
	}
	// A change of the ring makes a measurement due.
	r.openNode(144, nil)
	if !await.Reached(time.Minute, func() bool {
		all := int64(0)
		for _, node := range r.nodes {
			size, err := node.engine.TableSize(r.storage("k", "blobs"))
			if err != nil {
				t.Fatal(err)
			}
			sum := node.instance.Loads.Meter.Snapshot().Sum.Bytes
			if sum < size.Bytes/2 {
				return false
			}
			all += sum
		}
		return all > 0 && len(n.instance.Loads.Meter.Held()) == 16
	}) {
		t.Errorf("measured %+v and %+v", n.instance.Loads.Meter.Snapshot().Sum,
			r.nodes[1].instance.Loads.Meter.Snapshot().Sum)
	}
	if _, err := n.commands.Ranges.Load(t.Context(), control.RangesArgs{Sort: "size"}, nil); err == nil {
		t.Error("an unknown order is accepted")
	}
	got, err := n.commands.Ranges.Load(t.Context(), control.RangesArgs{Sort: control.SortBytes}, nil)
	if err != nil || !slices.IsSortedFunc(got.Ranges, func(a, b control.RangeLoad) int {
		return int(min(max(b.Bytes-a.Bytes, -1), 1))
	}) || got.Ranges[0].Bytes == 0 {
		t.Errorf("ranges by bytes: %+v, %v", got.Ranges, err)
	}
}
