package scenario

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"cqld/messaging"
	"cqld/ring"
	"cqld/row"
)

// deliver delivers messages of all links, or of the named ones. For example, "deliver 1>2 n=1" delivers one message
// from node 1 to node 2.
func (s *script) deliver(d *datadriven.TestData) {
	links := parseLinks(d)
	// Without n, messages that are sent meanwhile are delivered, too, until none is left.
	s.c.Deliver(number(d, "n", 1_000_000), func(l Link) bool {
		if len(links) == 0 {
			return true
		}
		return links[l]
	})
}

// parseLinks parses words like 2>3, and 2<>3 for both directions. An empty map means all links for deliver, and none
// for the other commands. Words of another form panic, which fails the test. "2<>3" is the same as "2>3 3>2".
func parseLinks(d *datadriven.TestData) map[Link]bool {
	links := map[Link]bool{}
	for _, w := range words(d) {
		a, b, both := strings.Cut(w, "<>")
		if !both {
			a, b, _ = strings.Cut(w, ">")
		}
		from, err1 := strconv.Atoi(a)
		to, err2 := strconv.Atoi(b)
		if err := errors.Join(err1, err2); err != nil {
			panic(err)
		}
		links[Link{ring.NodeID(from), ring.NodeID(to)}] = true
		if both {
			links[Link{ring.NodeID(to), ring.NodeID(from)}] = true
		}
	}
	return links
}

// twice delivers the messages on the links a second time. The copies come after all messages that are in flight. It is
// for protocols that must bear a message that arrives twice.
func (s *script) twice(d *datadriven.TestData) {
	links := parseLinks(d)
	for _, l := range slices.Clone(s.c.Flight) {
		if links[l.Link] {
			// The copy shares its function with the original: a handler must not depend on being called once.
			s.c.Flight = append(s.c.Flight, l)
		}
	}
}

// restart ends the processes of nodes and starts new ones, like a crash. Storage stays, and what the process had in
// memory is gone: requests in progress, hints that were not written, turns of the arbiter.
func (s *script) restart(d *datadriven.TestData) {
	for _, id := range nodes(d) {
		// The new process must not draw the ballots and timestamps of its predecessor again. Skip runs no timers.
		s.c.Clock.Skip(time.Microsecond)
		s.c.Node(id).Start()
	}
}

// drop loses the messages on the links. The sender is not notified, and waits for its timeout.
func (s *script) drop(d *datadriven.TestData) {
	links := parseLinks(d)
	var kept []*Letter
	for _, l := range s.c.Flight {
		if links[l.Link] {
			s.c.printf("%d>%d %s lost", l.From, l.To, l.What)
			continue
		}
		kept = append(kept, l)
	}
	s.c.Flight = kept
}

// cut makes links lose messages that are sent afterwards. Messages in flight still arrive. For example, "cut 1<>3"
// separates two nodes, and others still reach both.
func (s *script) cut(d *datadriven.TestData) {
	for l := range parseLinks(d) {
		s.c.Cut[l] = true
	}
}

// heal ends cut. All links are healed at once.
func (s *script) heal(*datadriven.TestData) { clear(s.c.Cut) }

// nodes returns the nodes that a command names.
func nodes(d *datadriven.TestData) (ids []ring.NodeID) {
	for _, w := range words(d) {
		n, err := strconv.Atoi(w)
		if err != nil {
			panic(err)
		}
		ids = append(ids, ring.NodeID(n))
	}
	return ids
}

// hold keeps the messages to nodes from being delivered; release ends that. Held messages keep their order.
func (s *script) hold(d *datadriven.TestData) {
	for _, id := range nodes(d) {
		s.c.held[id] = d.Cmd == "hold"
	}
}

// tick advances the clock. Timers that expire run within the command, in the order of their times.
func (s *script) tick(d *datadriven.TestData) {
	v, err := time.ParseDuration(words(d)[0])
	if err != nil {
		s.t.Fatal(err)
	}
	s.c.Clock.Advance(v)
}

// clock sets how far the wall clocks of nodes are ahead of the time. Timers and timeouts do not change with it: they
// use monotonic time.
func (s *script) clock(d *datadriven.TestData) {
	var ids []ring.NodeID
	for _, w := range list(d, "node") {
		n, err := strconv.Atoi(w)
		if err != nil {
			s.t.Fatal(err)
		}
		ids = append(ids, ring.NodeID(n))
	}
	for _, id := range ids {
		s.c.Node(id).Ahead = duration(d, "ahead", "0s")
	}
}

// live sets whether all other nodes consider nodes down. Only the other nodes' views change: the node itself continues
// to run.
func (s *script) live(d *datadriven.TestData) {
	for _, id := range nodes(d) {
		for _, n := range s.c.Nodes {
			if n.ID == id {
				continue
			}
			n.Down[id] = d.Cmd == "down"
			// In a running node, package assembly calls NodeUp when the failure detector finds a node alive.
			if d.Cmd == "up" {
				n.Hints.NodeUp(id)
			}
		}
	}
}

// awaits makes nodes await the first heartbeat of a new node. The command arrived ends that.
func (s *script) awaits(d *datadriven.TestData) {
	for _, id := range nodes(d) {
		s.c.Node(id).awaiting = d.Cmd == "awaits"
	}
}

// reach makes requests to nodes fail immediately (away), or ends that (back). A coordinator learns at once that a
// request was not sent, so it may store a hint without waiting. Messages in flight are not concerned.
func (s *script) reach(d *datadriven.TestData) {
	for _, id := range nodes(d) {
		s.c.away[id] = d.Cmd == "away"
	}
}

// breaks makes the storage of nodes fail in the way that disk= names, or ends that (fix). full is the error of a node
// whose disk has no space left; kept and lost are the two outcomes of a write whose caller gets an error. For example,
// "break 2 disk=full".
func (s *script) breaks(d *datadriven.TestData) {
	for _, id := range nodes(d) {
		// A new fault replaces the former one. WriteKept and WriteLost hold for the next write only.
		s.c.broken[id], s.c.Node(id).refusing = nil, nil
		switch {
		case d.Cmd == "fix":
		case text(d, "disk", "") == "kept":
			s.c.Node(id).Failing = WriteKept
		case text(d, "disk", "") == "lost":
			s.c.Node(id).Failing = WriteLost
		// The node refuses writes itself, and answers reads.
		case text(d, "disk", "") == "readonly":
			s.c.Node(id).refusing = errors.New("read-only file system")
		case text(d, "disk", "") == "full":
			// Requests from other nodes fail with the error of a node that is out of space.
			s.c.broken[id] = &messaging.RemoteError{Code: messaging.CodeOverloaded, Message: "the disk is full"}
		default:
			s.c.broken[id] = &messaging.RemoteError{Message: "injected disk error"}
		}
	}
}

// pages prints the answer of each node's storage to a read. The format is FormatPage's, after the number of the node.
func (s *script) pages(d *datadriven.TestData) {
	for _, n := range s.c.Nodes {
		// Directly from storage: a request would repair the replicas that it contacts.
		page, err := n.Engine.Read(nil, s.command(d))
		if err != nil {
			s.t.Fatal(err)
		}
		s.c.printf("%d: %s", n.ID, FormatPage(page))
	}
}

// hints prints how many hint records each node stores for each other node.
func (s *script) hints(d *datadriven.TestData) {
	for _, n := range s.c.Nodes {
		for _, o := range s.c.Nodes {
			if k := n.Hints.Pending(o.ID); k > 0 {
				s.c.printf("%d has %d for %d", n.ID, k, o.ID)
			}
		}
	}
}

// stats prints the counts of a node. Counts of zero are left out, so that a new counter changes only the files that it
// concerns.
func (s *script) stats(d *datadriven.TestData) {
	n := s.c.Node(ring.NodeID(number(d, "at", 1)))
	s.c.printCounts("", n.Coordinator.Stats())
	s.c.printCounts("Hints", n.Hints.Stats())
	s.c.printCounts("Batches", n.Batches.Stats())
	s.c.printCounts("Paxos.", n.Proposer.Stats())
	s.c.printCounts("Listing.", n.Lister.Stats())
}

// replicas prints the replicas of keys. The order is the strategy's: the first one is the primary.
func (s *script) replicas(d *datadriven.TestData) {
	for _, w := range words(d) {
		k := row.NewPartitionKey([]byte(w))
		// By the topology of node 1, which others may not have yet.
		set := s.c.Nodes[0].Ring.Placement(s.c.Table.Replication).Replicas(k.Token)
		s.c.printf("%s: %v", w, set.Natural)
	}
}

// ring gives nodes a new topology: "ring epoch=2 owners=4 at=(1,2)". With leaves=1 phase=switching, node 1 is leaving.
// A topology with a greater epoch is newer. It changes the view of the nodes only; no data moves.
func (s *script) ring(d *datadriven.TestData) {
	t := s.c.Topology(uint64(number(d, "epoch", 2)), s.c.Options.Datacenters, number(d, "owners", len(s.c.Nodes)))
	if leaver := number(d, "leaves", 0); leaver > 0 {
		o := &ring.Operation{ID: t.Epoch(), Kind: ring.Leave, Node: ring.NodeID(leaver), Phase: ring.Streaming}
		if text(d, "phase", "streaming") == "switching" {
			o.Phase, o.Switched = ring.Switching, t.Epoch()
		}
		// The topology of a decommission in progress: other nodes are pending replicas of the leaver's ranges.
		t.Node(o.Node).State = ring.Leaving
		t = ring.NewMovingTopology(t.Epoch(), t.Epoch(), t.Nodes(), []*ring.Operation{o})
	}
	// Only these nodes receive the topology; the others continue with their own, as if the metadata had not arrived.
	for _, id := range list(d, "at") {
		n, err := strconv.Atoi(id)
		if err != nil {
			s.t.Fatal(err)
		}
		s.c.Node(ring.NodeID(n)).Ring = t
	}
}
