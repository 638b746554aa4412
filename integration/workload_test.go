//go:build integration

package integration

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// workload writes unique rows at QUORUM over several connections, through all of its addresses in turn, and records the
// acknowledged ones.
type workload struct {
	addresses []string
	dial      process.Dialer
	table     string
	stopped   chan struct{}
	working   sync.WaitGroup
	next      atomic.Int64
	pause     atomic.Int64 // nanoseconds between a worker's requests

	mu    sync.Mutex
	left  map[string]bool // addresses that are no longer used
	asked int             // requests
	open  map[int]bool    // requests in flight
	acked []int64
	ended []outcome
}

// outcome is one request: its start, its duration, and its error.
type outcome struct {
	address string
	at      time.Time
	took    time.Duration
	err     error
}

// startWorkload creates a keyspace and a table and starts to write, with workers connections to each address.
func startWorkload(t *testing.T, addresses []string, keyspace string, workers int) *workload {
	t.Helper()
	return startWorkloadAs(t, func(address string) (*cqlclient.Conn, error) { return cqlclient.Dial(address, 4) },
		addresses, keyspace, workers)
}

// startWorkloadAs is startWorkload with a function that connects.
func startWorkloadAs(t *testing.T, dial process.Dialer, addresses []string, keyspace string, workers int) *workload {
	t.Helper()
	w := &workload{addresses: addresses, dial: dial, table: keyspace + ".written", stopped: make(chan struct{}),
		left: map[string]bool{}, open: map[int]bool{}}
	c, err := dial(addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, s := range []string{
		"CREATE KEYSPACE " + keyspace + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}",
		"CREATE TABLE " + w.table + " (k bigint PRIMARY KEY, v text)",
	} {
		if a, err := c.Query(s, cqlclient.Options{}); err != nil || a.Err != nil {
			t.Fatal(s, err, a)
		}
	}
	for _, address := range addresses {
		for range workers {
			w.working.Go(func() { w.work(address) })
		}
	}
	return w
}

// work writes through one address until the workload is stopped; it reconnects when the connection breaks.
func (w *workload) work(address string) {
	var c *cqlclient.Conn
	for {
		select {
		case <-w.stopped:
			if c != nil {
				c.Close()
			}
			return
		default:
		}
		if w.gone(address) {
			if c != nil {
				c.Close()
			}
			return
		}
		time.Sleep(time.Duration(w.pause.Load()))
		if c == nil {
			var err error
			if c, err = w.dial(address); err != nil {
				c = nil
				time.Sleep(50 * time.Millisecond)
				continue
			}
		}
		if !w.write(c, address) || !w.read(c, address) {
			c.Close()
			c = nil
		}
	}
}

// leave removes an address from the workload.
func (w *workload) leave(address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left[address] = true
}

func (w *workload) gone(address string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.left[address]
}

// errLost is the error of a read that does not find a row acknowledged before it began.
var errLost = errors.New("an acknowledged row is missing")

// readsAfter is the number of writes for each read of a row that was acknowledged before.
const readsAfter = 4

// read sometimes reads one of the last acknowledged rows; it returns false if the connection can no longer be used.
func (w *workload) read(c *cqlclient.Conn, address string) bool {
	w.mu.Lock()
	n := len(w.acked)
	if n == 0 || n%readsAfter != 0 {
		w.mu.Unlock()
		return true
	}
	k := w.acked[max(0, n-1-n%97)]
	w.mu.Unlock()
	began := time.Now()
	a, err := w.ask(c, fmt.Sprintf("SELECT v FROM %s WHERE k = %d", w.table, k))
	usable := err == nil
	switch {
	case err != nil:
	case a.Err != nil:
		err = a.Err
	case len(a.Rows) != 1 || !strings.HasPrefix(string(a.Rows[0][0]), fmt.Sprintf("value of %d", k)):
		err = fmt.Errorf("%w: %d", errLost, k)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = append(w.ended, outcome{address, began, time.Since(began), err})
	return usable
}

// write writes one row; it returns false if the connection can no longer be used.
func (w *workload) write(c *cqlclient.Conn, address string) bool {
	k := w.next.Add(1)
	began := time.Now()
	a, err := w.ask(c, fmt.Sprintf("INSERT INTO %s (k, v) VALUES (%d, 'value of %d')", w.table, k, k))
	usable := err == nil
	if err == nil && a.Err != nil {
		err = a.Err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = append(w.ended, outcome{address, began, time.Since(began), err})
	if err == nil {
		w.acked = append(w.acked, k)
	}
	return usable
}

func (w *workload) ask(c *cqlclient.Conn, text string) (*cqlclient.Answer, error) {
	w.mu.Lock()
	w.asked++
	n := w.asked
	w.open[n] = true
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.open, n)
	}()
	return c.Query(text, cqlclient.Options{Consistency: quorum})
}

// settle waits until every request that has been sent has ended.
func (w *workload) settle(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	last := w.asked
	w.mu.Unlock()
	oldest := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		first := w.asked + 1
		for n := range w.open {
			first = min(first, n)
		}
		return first
	}
	for end := time.Now().Add(time.Minute); oldest() <= last; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("requests do not end")
		}
	}
}

// fill writes n additional rows of about 1 KiB.
func (w *workload) fill(t *testing.T, address string, n int) {
	t.Helper()
	var filling sync.WaitGroup
	for range 8 {
		filling.Go(func() {
			c, err := w.dial(address)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			for range n / 8 {
				k := w.next.Add(1)
				a, err := c.Query(fmt.Sprintf("INSERT INTO %s (k, v) VALUES (%d, '%s')", w.table, k, fill(k)),
					cqlclient.Options{Consistency: quorum})
				if err != nil || a.Err != nil {
					t.Error(err, a)
					return
				}
				w.mu.Lock()
				w.acked = append(w.acked, k)
				w.mu.Unlock()
			}
		})
	}
	filling.Wait()
}

// fill returns an incompressible text of 1 KiB.
func fill(k int64) string {
	r := rand.New(rand.NewPCG(uint64(k), 1))
	b := make([]byte, 1024)
	for i := range b {
		b[i] = byte('a' + r.IntN(26))
	}
	return fmt.Sprintf("value of %d %s", k, b)
}

// stop ends the writes.
func (w *workload) stop() {
	close(w.stopped)
	w.working.Wait()
}

// failures returns the requests that failed, except the excused ones.
func (w *workload) failures(excused func(outcome) bool) (out []outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.ended {
		if o.err != nil && !excused(o) {
			out = append(out, o)
		}
	}
	return out
}

// quantile returns a quantile of the latencies of the requests that began between two times.
func (w *workload) quantile(from, to time.Time, share float64) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	var took []time.Duration
	for _, o := range w.ended {
		if o.err == nil && o.at.After(from) && o.at.Before(to) {
			took = append(took, o.took)
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[int(share*float64(len(took)-1))]
}

// gap returns the longest time between two acknowledged requests that began between two times.
func (w *workload) gap(from, to time.Time) (longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ends []time.Time
	for _, o := range w.ended {
		if end := o.at.Add(o.took); o.err == nil && end.After(from) && end.Before(to) {
			ends = append(ends, end)
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	last := from
	for _, end := range append(ends, to) {
		longest = max(longest, end.Sub(last))
		last = end
	}
	return longest
}

// readBack reads all acknowledged rows at QUORUM through one address and reports missing ones.
func (w *workload) readBack(t *testing.T, address string) {
	t.Helper()
	w.readBackAt(t, address, quorum)
}

// readBackAt is readBack at another consistency level.
func (w *workload) readBackAt(t *testing.T, address string, level uint16) {
	t.Helper()
	c, err := w.dial(address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	there := map[int64]bool{}
	var state []byte
	for {
		a, err := c.Query("SELECT k FROM "+w.table, cqlclient.Options{Consistency: level, PageSize: 1000,
			PagingState: state})
		if err != nil || a.Err != nil {
			t.Fatal(err, a)
		}
		for _, row := range a.Rows {
			there[int64(binary.BigEndian.Uint64(row[0]))] = true
		}
		if state = a.PagingState; state == nil {
			break
		}
	}
	missing := 0
	for _, k := range w.acked {
		if !there[k] {
			if missing++; missing <= 5 {
				t.Errorf("row %d was acknowledged, but is missing", k)
			}
		}
	}
	if missing > 0 || len(w.acked) == 0 {
		t.Errorf("%d of %d acknowledged rows are missing", missing, len(w.acked))
	}
	t.Logf("%d acknowledged rows are there", len(w.acked)-missing)
}
