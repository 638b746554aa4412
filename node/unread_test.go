package node

import (
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/internal/tier"
	"cqld/node/config"
)

// unreadClient is a connection of v4 that sends requests and reads nothing.
type unreadClient struct {
	t    *testing.T
	sock net.Conn
}

func dialUnread(t *testing.T, address string) *unreadClient {
	sock, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sock.Close() })
	c := &unreadClient{t, sock}
	c.send(0, 1, []byte("\x00\x01\x00\x0bCQL_VERSION\x00\x053.4.7")) // STARTUP
	ready := make([]byte, 9)
	sock.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := sock.Read(ready); err != nil || ready[4] != 2 {
		t.Fatalf("% x: %v", ready, err)
	}
	return c
}

func (c *unreadClient) send(stream uint16, opcode byte, body []byte) {
	b := binary.BigEndian.AppendUint16([]byte{4, 0}, stream)
	b = binary.BigEndian.AppendUint32(append(b, opcode), uint32(len(body)))
	if _, err := c.sock.Write(append(b, body...)); err != nil {
		c.t.Log(err) // it may have been disconnected
	}
}

// query sends a QUERY with a page size; zero means without.
func (c *unreadClient) query(stream uint16, text string, pageSize uint32) {
	body := append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	body = append(body, 0, 1) // ONE
	if pageSize == 0 {
		c.send(stream, 7, append(body, 0))
		return
	}
	c.send(stream, 7, binary.BigEndian.AppendUint32(append(body, 4), pageSize))
}

// peakHeap calls f and returns the growth of the heap during the call. The collector runs often, so this is memory in
// use.
func peakHeap(f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	// Nodes of earlier tests are not part of it: servers of Azure Tables keep them for 10 s after their end.
	var before runtime.MemStats
	for range 3 { // the second collection empties pools
		runtime.GC()
	}
	runtime.ReadMemStats(&before)
	var peak atomic.Uint64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		var m runtime.MemStats
		for {
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapInuse))
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	f()
	close(stop)
	<-stopped
	return max(peak.Load(), before.HeapInuse) - before.HeapInuse
}

// fillLarge writes a partition of n rows of size bytes.
func (r *inProcess) fillLarge(c *cqlclient.Conn, n, size int) {
	r.query(c, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	r.query(c, "CREATE TABLE k.t (k int, c int, v text, PRIMARY KEY (k, c))")
	for i := range n {
		r.query(c, fmt.Sprintf("INSERT INTO k.t (k, c, v) VALUES (1, %d, '%s')", i, strings.Repeat("x", size)))
	}
}

// Clients that do not read their large results neither take more memory than the limit of requests nor block others.
// When they have disconnected, they hold no memory.
func TestUnreadReplies(t *testing.T) {
	tier.Long(t)
	for _, pageSize := range []uint32{5000, 0} {
		t.Run(fmt.Sprintf("page of %d rows", pageSize), func(t *testing.T) {
			r := openNodes(t, 86, 1, func(o *config.Options) { o.ClientLimits.BytesInFlight = 64 << 20 })
			c := r.connect(0)
			r.fillLarge(c, 90, 100<<10)
			pool := r.nodes[0].servers.CQL().Memory()
			heap := peakHeap(func() {
				var clients []*unreadClient
				for range 40 {
					client := dialUnread(t, r.nodes[0].opts.Native().String())
					for i := range uint16(10) {
						client.query(i, "SELECT * FROM k.t WHERE k = 1", pageSize)
					}
					clients = append(clients, client)
				}
				served := 0
				// A request waits for memory longer than 3 s: the loop must not end while the first one waits.
				end, latest := time.Now().Add(3*time.Second), time.Now().Add(time.Minute)
				for now := time.Now(); now.Before(end) || served == 0 && now.Before(latest); now = time.Now() {
					// All clients have one address, so it competes with the others and may be refused.
					a, err := c.Query("SELECT c FROM k.t WHERE k = 1 AND c = 5", cqlclient.Options{})
					if err != nil || a.Err != nil && !strings.Contains(a.Err.Error(), "no memory") {
						t.Fatal(err, a)
					}
					if a.Err == nil {
						served++
					}
				}
				if served == 0 {
					t.Error("no other request is served")
				}
				for _, client := range clients {
					client.sock.Close()
				}
				r.eventually("nothing is held", func() bool { return pool.Used() == 0 })
			})
			s := pool.Stats()
			if most := s.Bytes + s.Reserve; s.Peak > most {
				t.Errorf("%d bytes were reserved of %d", s.Peak, most)
			}
			t.Logf("heap %d MiB, %+v", heap>>20, s)
			if heap > 400<<20 { // four times the limit: half of it is garbage and what a node needs
				t.Errorf("the heap had %d MiB", heap>>20)
			}
		})
	}
}

// A collection is read in memory of some times its size, whatever the number of its elements.
func TestLargeCollections(t *testing.T) {
	r := openNodes(t, 87, 1, nil)
	c := r.connect(0)
	r.query(c, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	r.query(c, "CREATE TABLE k.t (k int PRIMARY KEY, l list<int>, s set<int>)")
	const n = 100_000
	elements := binary.BigEndian.AppendUint32(nil, n)
	for i := range n {
		elements = binary.BigEndian.AppendUint32(append(elements, 0, 0, 0, 4), uint32(i))
	}
	for k, name := range map[byte]string{1: "l", 2: "s"} { // as text, 100,000 literals would cost the parser much more
		insert := fmt.Sprintf("INSERT INTO k.t (k, %s) VALUES (%d, ?)", name, k)
		if _, err := c.Query(insert, cqlclient.Options{Values: []cqlclient.Value{{Bytes: elements}}}); err != nil {
			t.Fatal(err)
		}
	}
	r.query(c, "UPDATE k.t SET s = s + {-1} WHERE k = 2") // a second version to merge
	for k, name := range map[int]string{1: "l", 2: "s"} {
		read := fmt.Sprintf("SELECT %s FROM k.t WHERE k = %d", name, k)
		size := len(r.query(c, read).Rows[0][0])
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		const reads = 5
		for range reads {
			r.query(c, read)
		}
		runtime.ReadMemStats(&after)
		each := int(after.TotalAlloc-before.TotalAlloc) / reads
		encoded := map[string]int{"l": 26, "s": 8}[name] * n // a path of 16 or 5 bytes, and at most 10 more
		if each > 8*(encoded+size) {
			t.Errorf("%s of %d bytes: %d bytes were allocated for each read", name, encoded, each)
		}
	}
	// Writes reserve more than reads: each element is a cell before it is encoded, and memory is reserved in steps.
	if s := r.nodes[0].servers.CQL().Memory().Stats(); s.Peak > 24*26*n {
		t.Errorf("a request of a collection reserved %d bytes", s.Peak)
	}
}

// Concurrent reads of large rows wait for memory, and all of them are answered.
func TestLargeRows(t *testing.T) {
	tier.Long(t)
	r := openNodes(t, 88, 1, func(o *config.Options) {
		o.ClientLimits.BytesInFlight,
			o.Requests.MaxFrameBytes = 24<<20, 16<<20
	})
	c := r.connect(0)
	const size = 6 << 20
	r.fillLarge(c, 3, size)
	pool := r.nodes[0].servers.CQL().Memory()
	heap := peakHeap(func() {
		var all sync.WaitGroup
		for i := range 24 {
			own := r.connect(0)
			all.Go(func() {
				a, err := own.Query(fmt.Sprintf("SELECT v FROM k.t WHERE k = 1 AND c = %d", i%3), cqlclient.Options{})
				if err != nil || len(a.Rows) != 1 || len(a.Rows[0][0]) != size {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
	r.eventually("nothing is held", func() bool { return pool.Used() == 0 })
	s := pool.Stats()
	if s.Peak > s.Bytes+s.Reserve || s.Waits == 0 {
		t.Errorf("%+v", s)
	}
	t.Logf("heap %d MiB, %+v", heap>>20, s)
}
