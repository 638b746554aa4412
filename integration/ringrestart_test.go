//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// rowsOfRestarts is the number of rows that are written unconditionally; a tenth as many are written conditionally.
const rowsOfRestarts = 5000

// restartTable is a table with replication factor 3 whose rows must persist.
const restartTable = "restarts.rows"

// fillRestarts creates the table and writes its rows at QUORUM, through all servers.
func fillRestarts(t *testing.T, servers []*process.Server) {
	t.Helper()
	askServer(t, servers[0], quorum, "CREATE KEYSPACE restarts WITH replication = {'class': 'SimpleStrategy', "+
		"'replication_factor': 3}")
	askServer(t, servers[0], quorum, "CREATE TABLE "+restartTable+" (k text PRIMARY KEY, v text)")
	const writers = 8
	var writing sync.WaitGroup
	for i := range writers {
		writing.Go(func() {
			c, err := cqlclient.Dial(servers[i%len(servers)].Address, 4)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			for k := i; k < rowsOfRestarts+rowsOfRestarts/10; k += writers {
				text := fmt.Sprintf("INSERT INTO %s (k, v) VALUES ('plain %d', 'v')", restartTable, k)
				if k >= rowsOfRestarts {
					text = fmt.Sprintf("INSERT INTO %s (k, v) VALUES ('conditional %d', 'v') IF NOT EXISTS",
						restartTable, k)
				}
				if a, err := c.Query(text, cqlclient.Options{Consistency: quorum}); err != nil || a.Err != nil {
					t.Error(text, err, a)
					return
				}
			}
		})
	}
	writing.Wait()
}

// askServer executes a statement that must succeed.
func askServer(t *testing.T, s *process.Server, level uint16, text string) *cqlclient.Answer {
	t.Helper()
	c, err := cqlclient.Dial(s.Address, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a, err := c.Query(text, cqlclient.Options{Consistency: level})
	if err != nil || a.Err != nil {
		t.Fatal(text, err, a)
	}
	return a
}

// checkRestarts counts the rows through every server, at ONE first, because reads at higher levels repair missing rows.
func checkRestarts(t *testing.T, servers []*process.Server, when string) {
	t.Helper()
	for _, level := range []struct {
		name string
		code uint16
	}{{"ONE", 1}, {"QUORUM", quorum}, {"ALL", 5}} {
		for _, s := range servers {
			if n := countRows(t, s, level.code); n != rowsOfRestarts+rowsOfRestarts/10 {
				t.Errorf("%s, %s sees %d of %d rows at %s", when, s.Address, n, rowsOfRestarts+rowsOfRestarts/10,
					level.name)
			}
		}
	}
}

func countRows(t *testing.T, s *process.Server, level uint16) (n int) {
	t.Helper()
	c, err := cqlclient.Dial(s.Address, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var state []byte
	for {
		a, err := c.Query("SELECT k FROM "+restartTable,
			cqlclient.Options{Consistency: level, PageSize: 1000, PagingState: state})
		if err != nil || a.Err != nil {
			t.Fatal(err, a)
		}
		n += len(a.Rows)
		if state = a.PagingState; state == nil {
			return n
		}
	}
}

// nothingToRepair repairs the table and checks that no rows are sent.
func nothingToRepair(t *testing.T, s *process.Server, when string) {
	t.Helper()
	var report struct{ Rows int64 }
	out := mustCtl(t, s, "repair", "restarts", "--json")
	if err := json.Unmarshal([]byte(out[strings.LastIndexByte(out[:len(out)-1], '\n')+1:]), &report); err != nil &&
		json.Unmarshal([]byte(out), &report) != nil {
		t.Fatal(err, out)
	}
	if report.Rows != 0 {
		t.Errorf("%s, repair sends %d rows", when, report.Rows)
	}
}

// grow makes spare servers join, one after the other; shrink makes them leave.
func grow(t *testing.T, first *process.Server, spare []*process.Server, size int) {
	t.Helper()
	for i, s := range spare {
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		if err := s.WaitAnswer(operationLimit); err != nil {
			t.Fatal(err)
		}
		waitRing(t, first, size+i+1)
	}
}

func shrink(t *testing.T, first *process.Server, spare []*process.Server, size int) {
	t.Helper()
	for i, s := range spare {
		mustCtl(t, s, "decommission")
		waitRing(t, first, size+len(spare)-i-1)
		s.Stop()
	}
}

// restart ends all servers, gracefully or by a kill, and starts them again.
func restart(t *testing.T, ring *process.Ring, end func(*process.Server)) {
	t.Helper()
	for _, s := range ring.Servers {
		end(s)
	}
	if err := ring.Start(ringStart); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second) // for background work after a start
}

// TestRestartAfterTheRingGrewAndShrank grows a ring from four nodes to eight and shrinks it to four, and restarts it.
func TestRestartAfterTheRingGrewAndShrank(t *testing.T) {
	t.Parallel()
	ring := startRing(t, process.Options{Nodes: 4, Spare: 4})
	fillRestarts(t, ring.Servers)
	grow(t, ring.Servers[0], ring.Spare, 4)
	shrink(t, ring.Servers[0], ring.Spare, 4)
	nothingToRepair(t, ring.Servers[0], "before the restart")
	for i := range 2 {
		restart(t, ring, (*process.Server).Stop)
		checkRestarts(t, ring.Servers, fmt.Sprint("after restart ", i+1))
	}
	nothingToRepair(t, ring.Servers[0], "after the restarts")
}

// TestRestartAfterMoves moves nodes eight times and restarts the ring.
func TestRestartAfterMoves(t *testing.T) {
	t.Parallel()
	ring := startRing(t, process.Options{Nodes: 4})
	fillRestarts(t, ring.Servers)
	for i := range 8 {
		mustCtl(t, ring.Servers[i%4], "move")
		waitRing(t, ring.Servers[0], 4)
	}
	restart(t, ring, (*process.Server).Stop)
	checkRestarts(t, ring.Servers, "after the restart")
	nothingToRepair(t, ring.Servers[0], "after the restart")
}

// TestKillsAfterTheRingGrewAndShrankUnderLoad grows a ring from four nodes to eight and shrinks it to four, twice,
// under load; then it restarts all nodes, and kills them one after the other.
func TestKillsAfterTheRingGrewAndShrankUnderLoad(t *testing.T) {
	t.Parallel()
	ring := startRing(t, process.Options{Nodes: 4, Spare: 8})
	fillRestarts(t, ring.Servers)
	w := startWorkload(t, strings.Split(ring.Addresses(), ","), "loaded", 1)
	w.pause.Store(int64(20 * time.Millisecond))
	for _, spare := range [][]*process.Server{ring.Spare[:4], ring.Spare[4:]} {
		grow(t, ring.Servers[0], spare, 4)
		shrink(t, ring.Servers[0], spare, 4)
	}
	w.stop()
	restart(t, ring, (*process.Server).Stop)
	checkRestarts(t, ring.Servers, "after the restart")
	for i, s := range ring.Servers {
		s.Kill()
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		if err := ring.WaitAgreed(ringStart); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		checkRestarts(t, ring.Servers, fmt.Sprint("after kill ", i+1))
		w.readBackAt(t, s.Address, 1)
	}
	nothingToRepair(t, ring.Servers[0], "in the end")
}
