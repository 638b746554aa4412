//go:build integration

package integration

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// TestDriversFollowANodeThatLeaves takes nodes away one after the other, each with drivers whose control
// connection is on the leaver itself, and with others whose is on a node that stays: all must end with the
// nodes and the tokens that are left, though nobody asks them for a request that would show them a closed door.
func TestDriversFollowANodeThatLeaves(t *testing.T) {
	ring := startRing(t, process.Options{Nodes: 6})
	counts := func(nodes int) string { return fmt.Sprintf("%d %d", nodes, 16*nodes) }
	aside, _ := watchRing(t, ring.Servers[0].Address)
	for left := 5; left >= 2; left-- {
		leaver := ring.Servers[left]
		beside, unwatch := watchRing(t, leaver.Address)
		beside.await(t, counts(left+1))
		mustCtl(t, leaver, "decommission")
		began := time.Now()
		leaver.Stop()
		beside.await(t, counts(left))
		took := time.Since(began)
		aside.await(t, counts(left))
		t.Logf("%d nodes: drivers on the leaver knew after %v, all after %v", left, took, time.Since(began))
		unwatch()
	}
}

// TestALeaverClosesItsDoorLast uses a node as long as it answers while it is decommissioned. A driver that is on it must
// be served, and find the whole ring there, with the node itself; or find no door, and then nobody who still knows the
// leaver. The leaver must not tell it REMOVED_NODE of itself: it would not ask for the ring again (the Python driver).
func TestALeaverClosesItsDoorLast(t *testing.T) {
	ring := startRing(t, process.Options{Nodes: 4})
	c := dialServer(t, ring.Servers[0])
	query(t, c, "CREATE KEYSPACE doors WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}", cqlclient.Options{})
	query(t, c, "CREATE TABLE doors.written (k int PRIMARY KEY)", cqlclient.Options{})
	for left := 3; left >= 2; left-- {
		leaver := ring.Servers[left]
		events := listen(t, leaver)
		asked := make(chan int)
		asker := dialServer(t, leaver)
		var others []*cqlclient.Conn
		for _, s := range ring.Servers[:left] {
			others = append(others, dialServer(t, s))
		}
		go func() { asked <- askUntilClosed(t, asker, others) }()
		mustCtl(t, leaver, "decommission")
		if n := <-asked; n < 10 {
			t.Errorf("the leaver was asked only %d times", n)
		}
		var told [][]string
		for e := range events {
			if e[2] == leaver.Address { // of the others there may be news yet: the ring has just begun
				told = append(told, e)
			}
		}
		if len(told) != 1 || !slices.Equal(told[0], []string{"STATUS_CHANGE", "DOWN", leaver.Address}) {
			t.Errorf("the leaver told its clients %q", told)
		}
		leaver.Stop()
	}
}

// askUntilClosed asks the leaver for the ring until the connection ends, then everybody else for the leaver.
func askUntilClosed(t *testing.T, leaver *cqlclient.Conn, others []*cqlclient.Conn) (asked int) {
	rows := func(c *cqlclient.Conn, text string) (int, error) {
		a, err := c.Query(text, cqlclient.Options{})
		if err == nil && a.Err != nil {
			err = a.Err
		}
		if err != nil {
			return 0, err
		}
		return len(a.Rows), nil
	}
	for ; ; asked++ {
		local, err1 := rows(leaver, "SELECT tokens FROM system.local WHERE key = 'local'")
		peers, err2 := rows(leaver, "SELECT tokens FROM system.peers_v2")
		if err1 != nil || err2 != nil {
			break
		}
		a, err := leaver.Query(fmt.Sprintf("INSERT INTO doors.written (k) VALUES (%d)", asked), cqlclient.Options{Consistency: quorum})
		if err != nil {
			break
		}
		if a.Err != nil {
			t.Errorf("the door is open, and a write fails: %v", a.Err)
		}
		if local != 1 || peers != len(others) {
			t.Errorf("the leaver shows itself %d times and %d others, want 1 and %d", local, peers, len(others))
		}
	}
	for i, c := range others {
		if peers, err := rows(c, "SELECT peer FROM system.peers_v2"); err != nil || peers != len(others)-1 {
			t.Errorf("when the leaver has closed its door node %d knows %d others, want %d: %v", i+1, peers, len(others)-1, err)
		}
	}
	return asked
}

// listen collects what a node tells of the ring, until the connection ends.
func listen(t *testing.T, s *process.Server) <-chan []string {
	t.Helper()
	events, c := make(chan []string, 100), dialServer(t, s)
	if err := c.Register("TOPOLOGY_CHANGE", "STATUS_CHANGE"); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(events)
		for {
			e, err := c.NextEvent(operationLimit)
			if err != nil {
				return
			}
			events <- e
		}
	}()
	return events
}

// TestANodeIsAnnouncedWhenItServes listens on every node while another joins: drivers connect when they hear of it, and
// those that cannot wait for long (gocql for a minute).
func TestANodeIsAnnouncedWhenItServes(t *testing.T) {
	ring := startRing(t, process.Options{Nodes: 3, Spare: 1})
	var all []<-chan []string
	for _, s := range ring.Servers {
		all = append(all, listen(t, s))
	}
	joiner := ring.Spare[0]
	if err := joiner.Start(); err != nil {
		t.Fatal(err)
	}
	limit := time.After(operationLimit)
	for i, events := range all {
		for _, want := range [][]string{{"TOPOLOGY_CHANGE", "NEW_NODE"}, {"STATUS_CHANGE", "UP"}} {
			want = append(want, joiner.Address)
			select {
			case e := <-events:
				for len(e) == 3 && e[2] != joiner.Address { // the ring has just begun
					e = <-events
				}
				if !slices.Equal(e, want) {
					t.Errorf("node %d tells its clients %q, want %q", i+1, e, want)
				}
			case <-limit:
				t.Fatalf("node %d does not tell its clients %q\n%s", i+1, want, joiner.Log())
			}
			if err := process.Ask(joiner.Address, "SELECT key FROM system.local"); err != nil {
				t.Errorf("%q is told, and clients cannot connect: %v", want, err)
			}
		}
	}
}
