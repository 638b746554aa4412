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

// TestDriversFollowANodeThatLeaves decommissions nodes one after the other, each with some drivers whose control
// connection is to the leaving node, and others whose control connection is to a remaining node. All must finally know
// the remaining nodes and tokens, although no request fails on a closed connection.
func TestDriversFollowANodeThatLeaves(t *testing.T) {
	t.Parallel()
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
		t.Logf("%d nodes: drivers on the departing node knew after %v, all after %v", left, took, time.Since(began))
		unwatch()
	}
}

// TestDecommissionClosesConnectionsLast uses a node while it is decommissioned, as long as it answers. It must serve a
// driver that is connected to it, and return the whole ring including itself, until it closes its connections; after
// that, no other node may list it. It must not send REMOVED_NODE for itself: the Python driver would not refresh its
// ring.
func TestDecommissionClosesConnectionsLast(t *testing.T) {
	t.Parallel()
	ring := startRing(t, process.Options{Nodes: 4})
	c := dialServer(t, ring.Servers[0])
	query(t, c, "CREATE KEYSPACE departures WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}",
		cqlclient.Options{})
	query(t, c, "CREATE TABLE departures.written (k int PRIMARY KEY)", cqlclient.Options{})
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
			t.Errorf("the departing node received only %d requests", n)
		}
		var status [][]string
		for e := range events {
			if e[2] == leaver.Address { // there may still be events for others: the ring has just started
				status = append(status, e)
			}
		}
		if len(status) != 1 || !slices.Equal(status[0], []string{"STATUS_CHANGE", "DOWN", leaver.Address}) {
			t.Errorf("the departing node sent its clients %q", status)
		}
		leaver.Stop()
	}
}

// askUntilClosed requests the ring from the leaving node until the connection ends, then checks that no other node
// lists it.
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
		a, err := leaver.Query(fmt.Sprintf("INSERT INTO departures.written (k) VALUES (%d)", asked),
			cqlclient.Options{Consistency: quorum})
		if err != nil {
			break
		}
		if a.Err != nil {
			t.Errorf("the connection is open, and a write fails: %v", a.Err)
		}
		if local != 1 || peers != len(others) {
			t.Errorf("the departing node shows itself %d times and %d others, want 1 and %d", local, peers, len(others))
		}
	}
	for i, c := range others {
		if peers, err := rows(c, "SELECT peer FROM system.peers_v2"); err != nil || peers != len(others)-1 {
			t.Errorf("after the departing node has closed its connections, node %d knows %d others, want %d: %v", i+1,
				peers, len(others)-1, err)
		}
	}
	return asked
}

// listen collects a node's events until the connection ends.
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

// TestNewNodeEventFollowsReadiness listens for events on every node while another joins: drivers connect when they
// receive the event, and after a refused connection some wait long (gocql a minute).
func TestNewNodeEventFollowsReadiness(t *testing.T) {
	t.Parallel()
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
				for len(e) == 3 && e[2] != joiner.Address { // the ring has just started
					e = <-events
				}
				if !slices.Equal(e, want) {
					t.Errorf("node %d sends its clients %q, want %q", i+1, e, want)
				}
			case <-limit:
				t.Fatalf("node %d does not send its clients %q\n%s", i+1, want, joiner.Log())
			}
			if err := process.Ask(joiner.Address, "SELECT key FROM system.local"); err != nil {
				t.Errorf("%q was sent, and clients cannot connect: %v", want, err)
			}
		}
	}
}
