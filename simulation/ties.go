package simulation

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/engine"
	"cqld/simulation/texttable"
)

// ties is the workload: clients write values with timestamps of which many are equal, and read at QUORUM. For equal
// timestamps, the greater value wins on all replicas: results of reads never go back in the order of timestamp and
// value. Cassandra resolves equal timestamps by the greater value as well, so that replicas agree without knowing the
// order of arrival.
type ties struct {
	clients
	table *schema.Table
	// least is the minimum that reads may return from now on; an empty text means no row.
	least [tiesKeys]string
	tried int
	acked int
}

const (
	tiesKeys    = 3
	tiesClients = 4
	// tiesGrain is the granularity of timestamps (µs).
	tiesGrain = 500_000
)

func newTies(c *Cluster) *ties { return &ties{clients: newClients(c, "ties"), table: c.table("ties")} }

// start starts the clients, half of whose steps are writes.
func (w *ties) start() {
	w.launch(tiesClients, 40*time.Millisecond, func(l *process, _ int, end func() bool) {
		key, next := w.rand.Intn(tiesKeys), func(error) { end() }
		if w.rand.Chance(500) {
			w.write(l, key, next)
			return
		}
		w.read(l, key, ring.Quorum, next)
	})
}

func (w *ties) counts() (tried, acked int) { return w.tried, w.acked }

func (w *ties) key(key int) row.PartitionKey {
	return row.NewPartitionKey([]byte("tie" + strconv.Itoa(key)))
}

// write writes a value with a timestamp that other writes share.
func (w *ties) write(l *process, key int, done func(error)) {
	w.tried++
	// All writes of half a second share a timestamp.
	stamp := w.c.order.stamp() / tiesGrain * tiesGrain
	// The value begins with the timestamp, which has the same number of digits in every run, so values sort by
	// timestamp first.
	value := fmt.Sprintf("%d %03d", stamp, w.rand.Intn(1000))
	l.write(texttable.Change(w.table, w.key(key), "r", value, stamp), ring.Quorum, func(err error) {
		w.c.kernel.Trace(fmt.Sprint("tie ", key, value, err))
		if err == nil {
			w.acked++
			w.least[key] = max(w.least[key], value)
		}
		done(err)
	})
}

// read checks that a read returns nothing older than what was read or acknowledged before it began. A read may also
// establish a new minimum for later ones: reads at QUORUM must not go back.
func (w *ties) read(l *process, key int, level ring.Consistency, done func(error)) {
	w.tried++
	// As of the time of the request: what others read meanwhile does not bind it.
	least := w.least[key]
	l.read(l.partition(w.table, w.key(key)), level, func(page []byte, err error) {
		w.c.kernel.Trace(fmt.Sprint("tie read ", key, err))
		var rows [][2]string
		if err == nil {
			rows, err = texttable.Rows(page, 0)
		}
		if err == nil {
			found := ""
			for _, r := range rows {
				found = r[1]
			}
			// The empty string, for no row, is less than every value.
			if found < least {
				w.c.fail("tie %d: %q is read, but %q was read or acknowledged before", key, found, least)
			}
			w.acked++
			w.least[key] = max(w.least[key], found)
		}
		done(err)
	})
}

func (w *ties) readBack() {
	for key := range tiesKeys {
		w.c.everywhere(fmt.Sprint("tie ", key), func(l *process,
			done func(error)) {
			w.read(l, key, ring.Quorum, done)
		})
	}
}

// check does nothing: every read is checked when it ends.
func (w *ties) check() {}

// firstCame reports whether a replica that breaks ties by arrival already has data in e with the timestamp of m.
func (l *process) firstCame(e engine.Engine, m *row.Mutation) bool {
	t := l.Schema().TableByStorage(m.Table)
	if t == nil || t.Name != "ties" {
		return false
	}
	page, err := e.Read(nil, &row.ReadCommand{Table: m.Table, Key: m.Key, Slices: []row.Slice{row.AllRows()}})
	rows, rowsErr := texttable.Rows(page, 0)
	if err != nil || rowsErr != nil || len(rows) == 0 {
		return false
	}
	var entry row.Entry
	stamp, _, _ := bytes.Cut([]byte(rows[0][1]), []byte(" "))
	// The value of the entry begins with its timestamp: an equal one means a tie, and the replica keeps what it has.
	for es := m.Entries(); es.Next(&entry); {
		if bytes.Contains(entry.Value, append(stamp, ' ')) {
			return true
		}
	}
	return false
}
