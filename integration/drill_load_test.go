//go:build integration

package integration

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// order returns the values of a row of shop.orders: k, v, p and note.
func order(k, rows int) (values [4][]byte) {
	number := func(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
	r := rand.New(rand.NewPCG(uint64(k), 1))
	note := make([]byte, 160)
	for i := range note {
		note[i] = byte('a' + r.IntN(26))
	}
	field := binary.BigEndian.AppendUint32
	place := field(field(field(field(nil, 4), uint32(k)), 4), uint32(-k))
	return [4][]byte{number(k), number(k % (rows / drillGroup)), place, note}
}

// drillLoaders is the number of connections that load rows, and drillBatch the number of rows in each request.
const (
	drillLoaders = 16
	drillBatch   = 20
)

// loadDrill writes the rows of shop.orders, a hundredth as many counters and conditional rows, concurrently.
func loadDrill(t *testing.T, ring *process.Ring, rows int) {
	t.Helper()
	var next atomic.Int64
	var loading sync.WaitGroup
	load := func(c *cqlclient.Conn) error {
		defer c.Close()
		p, err := c.Prepare("INSERT INTO shop.orders (k, v, p, note) VALUES (?, ?, ?, ?)")
		if err != nil || p.Err != nil {
			return fmt.Errorf("%w, %v", err, p)
		}
		for {
			first := int(next.Add(drillBatch)) - drillBatch
			if first >= rows {
				return nil
			}
			var batch []cqlclient.Statement
			for k := first; k < min(first+drillBatch, rows); k++ {
				s := cqlclient.Statement{ID: p.Prepared.ID}
				for _, v := range order(k, rows) {
					s.Values = append(s.Values, cqlclient.Value{Bytes: v})
				}
				batch = append(batch, s)
				if k%100 != 0 {
					continue
				}
				if err := claimAndCount(c, k); err != nil {
					return err
				}
			}
			if a, err := c.Batch(1, batch, cqlclient.Options{Consistency: quorum}); err != nil {
				return err
			} else if a.Err != nil {
				return a.Err
			}
		}
	}
	for i := range drillLoaders {
		c, err := asSuperuser(ring.Servers[i%len(ring.Servers)].Address)
		if err != nil {
			t.Fatal(err)
		}
		loading.Go(func() {
			if err := load(c); err != nil {
				t.Error(err)
			}
		})
	}
	loading.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// claimAndCount writes a counter, and a row by two conditional changes.
func claimAndCount(c *cqlclient.Conn, k int) error {
	for _, text := range []string{fmt.Sprintf("UPDATE shop.visits SET n = n + %d WHERE k = %d", k, k),
		fmt.Sprintf("INSERT INTO shop.claims (k, owner) VALUES (%d, 'first') IF NOT EXISTS", -k-1),
		fmt.Sprintf("UPDATE shop.claims SET owner = '%d' WHERE k = %d IF owner = 'first'", k, -k-1)} {
		if err := perform(c, text); err != nil {
			return err
		}
	}
	return nil
}

// The kinds of requests of clients in the drill whose effect has a time.
const (
	drillInsert = iota // of a row of shop.live
	drillCount         // an increment of shop.counted
	drillClaim         // a conditional insertion into shop.claims
	drillKinds
)

// drillClient is one client of the drill. Its keys are unique.
type drillClient struct {
	number int
	dated  [drillKinds][]dated // keyed by their position
}

// key returns a key of a row of the client, which is no key of another client.
func (c *drillClient) key(n int) int { return c.number + drillConnections*n }

// drillConnections is the number of clients, and drillPause how long each waits between two requests.
const (
	drillConnections = 8
	drillPause       = 5 * time.Millisecond
)

// drillClients are the clients of the drill, which write and read until stop is called.
type drillClients struct {
	rows    int
	clients []*drillClient
	err     error // of the first request that failed; complete after stop
	stop    func()

	reduced atomic.Bool
	sending sync.RWMutex // read-locked during requests

	mu        sync.Mutex
	latency   latencyClasses
	since     time.Time
	processes []*process.Server
	cpu       time.Duration
}

// startDrillClients starts the clients, which use all nodes.
func startDrillClients(t *testing.T, ring *process.Ring, rows int) *drillClients {
	t.Helper()
	d := &drillClients{rows: rows, since: time.Now(), processes: ring.Servers}
	var working sync.WaitGroup
	stopped := make(chan struct{})
	for i := range drillConnections {
		c, err := asSuperuser(ring.Servers[i%len(ring.Servers)].Address)
		if err != nil {
			t.Fatal(err)
		}
		client := &drillClient{number: i}
		d.clients = append(d.clients, client)
		working.Go(func() {
			defer c.Close()
			for n := 0; ; n++ {
				select {
				case <-stopped:
					return
				case <-time.After(drillPause):
				}
				if err := d.send(c, client, n); err != nil {
					d.mu.Lock()
					d.err = cmp.Or(d.err, err)
					d.mu.Unlock()
					return
				}
			}
		})
	}
	d.stop = sync.OnceFunc(func() {
		close(stopped)
		working.Wait()
	})
	t.Cleanup(d.stop)
	d.latencies()
	return d
}

// reduce ends requests to tables that are dropped, and waits for the ones in flight.
func (d *drillClients) reduce() {
	d.sending.Lock()
	defer d.sending.Unlock()
	d.reduced.Store(true)
}

// send sends request n of a client.
func (d *drillClients) send(c *cqlclient.Conn, client *drillClient, n int) error {
	d.sending.RLock()
	defer d.sending.RUnlock()
	kind, text := drillKinds, ""
	reduced := d.reduced.Load()
	switch n % 8 {
	case 0, 1, 2:
		kind, text = drillInsert, fmt.Sprintf("INSERT INTO shop.live (k, v) VALUES (%d, 'v') USING TIMESTAMP 7",
			client.key(len(client.dated[drillInsert])))
	case 3:
		kind, text = drillCount, fmt.Sprintf("UPDATE shop.counted SET n = n + 1 WHERE k = %d", client.number)
	case 4:
		kind, text = drillClaim, fmt.Sprintf("INSERT INTO shop.claims (k, owner) VALUES (%d, 'client') IF NOT EXISTS",
			client.key(len(client.dated[drillClaim])))
	}
	if reduced && (kind == drillCount || kind == drillClaim) {
		return nil
	}
	if kind == drillKinds {
		text = fmt.Sprintf("SELECT v FROM shop.orders WHERE k = %d", rand.IntN(d.rows))
	}
	row := dated{sent: time.Now()}
	a, err := c.Query(text, cqlclient.Options{Consistency: quorum})
	if err == nil && a.Err != nil {
		err = a.Err
	}
	if err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	row.acked = time.Now()
	if kind != drillKinds {
		client.dated[kind] = append(client.dated[kind], row)
	} else if !reduced && len(a.Rows) != 1 {
		return fmt.Errorf("%s: %d rows", text, len(a.Rows))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.latency.add(row.acked.Sub(row.sent))
	return nil
}

// latencies returns the latencies and the rate of the requests since the last call.
func (d *drillClients) latencies() string {
	var cpu time.Duration
	for _, s := range d.processes {
		u, err := s.Usage()
		if err != nil {
			return err.Error()
		}
		cpu += u.CPU
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	seconds := time.Since(d.since).Seconds()
	text := fmt.Sprintf("%.0f requests/s, p50 %v, p99 %v, p99.9 %v; the nodes use %.2f cores",
		float64(d.latency.n)/seconds, d.latency.quantile(0.5), d.latency.quantile(0.99), d.latency.quantile(0.999),
		(cpu-d.cpu).Seconds()/seconds)
	d.latency, d.since, d.cpu = latencyClasses{}, time.Now(), cpu
	return text
}

// latencyClasses counts durations in classes that differ by 5 %, from a microsecond to several minutes.
type latencyClasses struct {
	n       int
	classes [400]int
}

// latencyStep is the ratio of two successive classes of latencies.
const latencyStep = 1.05

// add counts a duration.
func (l *latencyClasses) add(d time.Duration) {
	class := int(math.Log(float64(max(1, d.Microseconds()))) / math.Log(latencyStep))
	l.classes[min(class, len(l.classes)-1)]++
	l.n++
}

// quantile returns a quantile, at most 5 % too short.
func (l *latencyClasses) quantile(share float64) time.Duration {
	left := int(share * float64(l.n))
	for class, n := range l.classes {
		if left -= n; left < 0 {
			micros := math.Pow(latencyStep, float64(class))
			return time.Duration(micros * float64(time.Microsecond)).Round(10 * time.Microsecond)
		}
	}
	return 0
}
