//go:build integration

package integration

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"testing"
	"time"

	"cqld/integration/cqlclient"
)

// span are two times: what was acknowledged before from must be there, and what was sent after to must not.
type span struct{ from, to time.Time }

// drillPage is the page size of comparisons, in rows.
const drillPage = 5000

// drillBuilt bounds the time in which indexes and views are built after a restoration, without and for each row.
const (
	drillBuilt      = time.Minute
	drillBuiltOfRow = 300 * time.Microsecond
)

// mustPage calls a function with all rows of a query, page by page.
func mustPage(t *testing.T, c *cqlclient.Conn, text string, level uint16, row func([][]byte)) {
	t.Helper()
	for o := (cqlclient.Options{Consistency: level, PageSize: drillPage}); ; {
		a, err := c.Query(text, o)
		if err == nil && a.Err != nil {
			err = a.Err
		}
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for _, r := range a.Rows {
			row(r)
		}
		if o.PagingState = a.PagingState; o.PagingState == nil {
			return
		}
	}
}

// mustDial connects as the superuser until the end of the test.
func mustDial(t *testing.T, address string) *cqlclient.Conn {
	t.Helper()
	c, err := asSuperuser(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// mustHaveRows compares all rows of the loader at ONE through a node.
func (d *drill) mustHaveRows(t *testing.T, address string) {
	t.Helper()
	c := mustDial(t, address)
	seen, n := make([]bool, d.rows), 0
	mustPage(t, c, "SELECT k, v, p, note FROM shop.orders", one, func(row [][]byte) {
		k := int(int32(binary.BigEndian.Uint32(row[0])))
		if k < 0 || k >= d.rows || seen[k] {
			t.Fatalf("%s: row %d was not written, or is there twice", address, k)
		}
		for i, want := range order(k, d.rows) {
			if !bytes.Equal(row[i], want) {
				t.Fatalf("%s: value %d of row %d is %x, want %x", address, i, k, row[i], want)
			}
		}
		seen[k] = true
		n++
	})
	if n != d.rows {
		t.Fatalf("%s: %d of %d rows are there", address, n, d.rows)
	}
	n = 0
	mustPage(t, c, "SELECT k, n FROM shop.visits", one, func(row [][]byte) {
		k, sum := int(binary.BigEndian.Uint32(row[0])), int(binary.BigEndian.Uint64(row[1]))
		if n++; k != sum {
			t.Errorf("%s: the counter %d is %d", address, k, sum)
		}
	})
	if want := (d.rows + 99) / 100; n != want {
		t.Errorf("%s: %d counters, want %d", address, n, want)
	}
}

// mustHaveClients compares at ONE what the clients of the lost ring wrote.
func (d *drill) mustHaveClients(t *testing.T, address string, s span) {
	t.Helper()
	c := mustDial(t, address)
	live, claims, counted := map[int]bool{}, map[int]bool{}, map[int]int{}
	mustPage(t, c, "SELECT k FROM shop.live", one, func(row [][]byte) {
		live[int(binary.BigEndian.Uint32(row[0]))] = true
	})
	mustPage(t, c, "SELECT k, owner FROM shop.claims", one, func(row [][]byte) {
		k, want := int(int32(binary.BigEndian.Uint32(row[0]))), "client"
		if k < 0 {
			want = strconv.Itoa(-k - 1)
		}
		if string(row[1]) != want {
			t.Errorf("%s: the claim %d is %q, want %q", address, k, row[1], want)
		}
		claims[k] = true
	})
	mustPage(t, c, "SELECT k, n FROM shop.counted", one, func(row [][]byte) {
		counted[int(binary.BigEndian.Uint32(row[0]))] = int(binary.BigEndian.Uint64(row[1]))
	})
	for k := 0; k < d.rows; k += 100 {
		if !claims[-k-1] {
			t.Fatalf("%s: the claim %d is missing", address, -k-1)
		}
	}
	var before, after [drillKinds]int
	for _, client := range d.clients.clients {
		least, most := 0, 0
		for kind, rows := range client.dated {
			there := live
			if kind == drillClaim {
				there = claims
			}
			for n, row := range rows {
				must, mustNot := row.acked.Before(s.from), row.sent.After(s.to)
				if must {
					before[kind]++
				}
				if mustNot {
					after[kind]++
				}
				if k := client.key(n); kind != drillCount && (must && !there[k] || mustNot && there[k]) {
					t.Fatalf("%s: row %d of kind %d, sent %v and acknowledged %v from the moment: there is %t", address,
						k, kind, row.sent.Sub(s.from), row.acked.Sub(s.from), there[k])
				}
			}
		}
		for _, row := range client.dated[drillCount] {
			if row.acked.Before(s.from) {
				least++
			}
			if !row.sent.After(s.to) {
				most++
			}
		}
		if n := counted[client.number]; n < least || n > most {
			t.Errorf("%s: the counter of client %d is %d, want %d to %d", address, client.number, n, least, most)
		}
	}
	for kind := range before {
		if before[kind] == 0 || after[kind] == 0 {
			t.Errorf("of kind %d, %d requests are from before the moment, and %d from after it", kind, before[kind],
				after[kind])
		}
	}
	// The conditions of later changes see the restored rows.
	a, err := c.Query("INSERT INTO shop.claims (k, owner) VALUES (-1, 'other') IF NOT EXISTS",
		cqlclient.Options{Consistency: quorum})
	if err != nil || a.Err != nil || len(a.Rows) != 1 || !bytes.Equal(a.Rows[0][0], []byte{0}) {
		t.Errorf("%s: a claim is made twice: %v, %+v", address, err, a)
	}
}

// mustHaveReader logs in as the restored role, which may read one table, and not change it.
func mustHaveReader(t *testing.T, address string) {
	t.Helper()
	c, err := asReader(address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := perform(c, "SELECT k FROM shop.orders WHERE k = 1"); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"DELETE FROM shop.orders WHERE k = 1", "SELECT k FROM shop.claims WHERE k = 1"} {
		if err := perform(c, text); err == nil {
			t.Errorf("the role of the backup may do: %s", text)
		}
	}
}

// mustHaveIndexes waits until the index and the view, which are built in the background, have all rows.
func (d *drill) mustHaveIndexes(t *testing.T, address string) {
	t.Helper()
	c := mustDial(t, address)
	began := time.Now()
	end := began.Add(drillBuilt + time.Duration(d.rows)*drillBuiltOfRow)
	viewed := 0
	for ; viewed != d.rows && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		viewed = 0
		mustPage(t, c, "SELECT k, v FROM shop.orders_by_v", quorum, func(row [][]byte) {
			want := order(int(binary.BigEndian.Uint32(row[0])), d.rows)
			if viewed++; !bytes.Equal(row[1], want[1]) {
				t.Fatalf("the view has %x for row %x", row[1], row[0])
			}
		})
	}
	if viewed != d.rows {
		t.Errorf("the view has %d of %d rows", viewed, d.rows)
	}
	t.Logf("the view was complete %.1f s after the comparison of rows", time.Since(began).Seconds())
	groups := d.rows / drillGroup
	for v := 0; v < groups; v += max(1, groups/100) {
		var n int
		for ; n != drillGroup && time.Now().Before(end); time.Sleep(time.Millisecond) {
			n = 0
			a, err := c.Query(fmt.Sprintf("SELECT k FROM shop.orders WHERE v = %d", v),
				cqlclient.Options{Consistency: quorum, PageSize: drillPage})
			// An index that is being built refuses requests.
			if err == nil && a.Err == nil {
				n = len(a.Rows)
			}
		}
		if n != drillGroup {
			t.Fatalf("the index has %d rows for %d", n, v)
		}
	}
	t.Logf("the index was complete %.1f s after the comparison of rows", time.Since(began).Seconds())
}
