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
)

// workload writes unique rows at QUORUM from several connections, through all of its addresses in turn,
// and remembers what was acknowledged.
type workload struct {
	addresses []string
	table     string
	stopped   chan struct{}
	working   sync.WaitGroup
	next      atomic.Int64
	pause     atomic.Int64 // nanoseconds between a worker's requests

	mu    sync.Mutex
	left  map[string]bool // addresses that are not to be used any more
	asked int             // requests
	open  map[int]bool    // those that have not ended
	acked []int64
	ended []outcome
}

// outcome is one request: when it began, how long it took, and why it failed.
type outcome struct {
	address string
	at      time.Time
	took    time.Duration
	err     error
}

// startWorkload makes a keyspace and a table and begins to write, with workers connections to each
// address.
func startWorkload(t *testing.T, addresses []string, keyspace string, workers int) *workload {
	t.Helper()
	w := &workload{addresses: addresses, table: keyspace + ".written", stopped: make(chan struct{}), left: map[string]bool{}, open: map[int]bool{}}
	c, err := cqlclient.Dial(addresses[0], 4)
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

// work writes through one address until the workload is stopped; when the connection breaks it is made
// again.
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
			if c, err = cqlclient.Dial(address, 4); err != nil {
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

// leave makes the workload use an address no more.
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

// errLost is how a read ends that does not find what was acknowledged before it began.
var errLost = errors.New("a row was acknowledged and is not there")

// readsAfter is how many writes there are for one read of a row that was acknowledged before.
const readsAfter = 4

// read reads one of the rows that were acknowledged last, now and then; false when the connection is of
// no use any more.
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

// write writes one row; false when the connection is of no use any more.
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

// settle waits until every request that was sent by now has ended.
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

// fill writes n rows of about 1 KiB on top.
func (w *workload) fill(t *testing.T, address string, n int) {
	t.Helper()
	var filling sync.WaitGroup
	for range 8 {
		filling.Go(func() {
			c, err := cqlclient.Dial(address, 4)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			for range n / 8 {
				k := w.next.Add(1)
				a, err := c.Query(fmt.Sprintf("INSERT INTO %s (k, v) VALUES (%d, '%s')", w.table, k, fill(k)), cqlclient.Options{Consistency: quorum})
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

// fill is a text of 1 KiB that does not compress.
func fill(k int64) string {
	r := rand.New(rand.NewPCG(uint64(k), 1))
	b := make([]byte, 1024)
	for i := range b {
		b[i] = byte('a' + r.IntN(26))
	}
	return fmt.Sprintf("value of %d %s", k, b)
}

// stop ends the writing.
func (w *workload) stop() {
	close(w.stopped)
	w.working.Wait()
}

// failures are the requests that failed, but for those that excused says may.
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

// quantile is the latency that a share of the requests did not exceed which began between two moments.
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

// gap is the longest time between two acknowledged requests that began between two moments.
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

// readBack reads all that was acknowledged at QUORUM through one address and reports what is missing.
func (w *workload) readBack(t *testing.T, address string) {
	t.Helper()
	w.readBackAt(t, address, quorum)
}

// readBackAt is readBack at another level.
func (w *workload) readBackAt(t *testing.T, address string, level uint16) {
	t.Helper()
	c, err := cqlclient.Dial(address, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	there := map[int64]bool{}
	var state []byte
	for {
		a, err := c.Query("SELECT k FROM "+w.table, cqlclient.Options{Consistency: level, PageSize: 1000, PagingState: state})
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
				t.Errorf("row %d was acknowledged and is not there", k)
			}
		}
	}
	if missing > 0 || len(w.acked) == 0 {
		t.Errorf("%d of %d acknowledged rows are missing", missing, len(w.acked))
	}
	t.Logf("%d acknowledged rows are there", len(w.acked)-missing)
}
