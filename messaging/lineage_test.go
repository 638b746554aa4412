package messaging

import (
	"context"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"cqld/ring"
)

// TestNodesOfDifferentRecoveries connects a node to another one of a cluster with the same name: members of two
// recoveries refuse each other in both directions, the one that did not take part gets the notice, and a node without
// an id is accepted by all.
func TestNodesOfDifferentRecoveries(t *testing.T) {
	first, second, other := [16]byte{1}, [16]byte{2}, [16]byte{3}
	for _, c := range []struct {
		name      string
		id        ring.NodeID
		from, to  [][16]byte
		connected bool
		notice    bool
	}{
		{"never recovered", 1, nil, nil, true, false},
		{"the same recovery", 1, [][16]byte{first}, [][16]byte{first}, true, false},
		{"before a recovery", 1, nil, [][16]byte{first}, false, true},
		{"after a recovery", 1, [][16]byte{first}, nil, false, false},
		{"before two recoveries", 1, nil, [][16]byte{first, second}, false, true},
		{"between two recoveries", 1, [][16]byte{first}, [][16]byte{first, second}, false, true},
		{"another recovery", 1, [][16]byte{other}, [][16]byte{first}, false, false},
		{"a new node", 0, nil, [][16]byte{first}, true, false},
		{"a new node, never recovered", 0, nil, nil, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var notices atomic.Int32
			a := NewStreamTransport(Options{Cluster: "c", Listen: netip.MustParseAddrPort("127.0.0.1:0"),
				Limits: DefaultLimits(), Security: suiteSecurity(t),
				Superseded: func(notice string) {
					if strings.Contains(notice, "continues without this node") {
						notices.Add(1)
					}
				}})
			a.SetLineage(Lineage{Recoveries: c.from})
			a.SetSelf(c.id)
			if err := a.Open(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(a.Close)
			b := openNode(t, 2, "c", func(b *StreamTransport) {
				b.SetLineage(Lineage{Recoveries: c.to, Notice: "the cluster continues without this node"})
				b.Handle(Service{Verb: VerbJoin, Any: func(_ Sender, _ []byte, respond Respond) { respond(nil, nil) }})
			})
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			_, err := a.RequestAddr(ctx, b.Addr(), VerbJoin, nil)
			if (err == nil) != c.connected {
				t.Errorf("connected: %v, %v", !c.connected, err)
			}
			if got := notices.Load() > 0; got != c.notice {
				t.Errorf("notice: %v (%v)", got, err)
			}
		})
	}
}

// TestNewNodeDropsNodesBeforeRecovery connects a node of the cluster before a recovery to a node that has no id yet.
// The new node is admitted to the recovered cluster, which lists the first node as a member. The connection must not be
// bound.
func TestNewNodeDropsNodesBeforeRecovery(t *testing.T) {
	for _, recoveries := range [][][16]byte{nil, {{1}}} {
		b := openNode(t, 0, "c", nil)
		var connected atomic.Bool
		a := openNode(t, 1, "c", func(a *StreamTransport) {
			a.opts.Connected = func(_ ring.NodeID, up bool) { connected.Store(up) }
		})
		a.SetPeers(map[ring.NodeID]netip.AddrPort{2: b.Addr()})
		waitFor(t, connected.Load)
		b.SetLineage(Lineage{Recoveries: recoveries})
		b.SetSelf(2)
		know(b, a)
		if err := ask(a, VerbHeartbeat, ""); (err == nil) != (recoveries == nil) {
			t.Errorf("%d recoveries: %v", len(recoveries), err)
		}
	}
}
