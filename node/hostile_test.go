package node

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"cqld/cluster/metadata"
	"cqld/integration/cqlclient"
	"cqld/internal/await"
	"cqld/messaging"
	"cqld/ring"
)

// peerAt returns a process with the internode protocol at an address of subnet 63, as node id.
func (r *inProcess) peerAt(host byte, id ring.NodeID) *messaging.StreamTransport {
	r.t.Helper()
	o := r.nodes[0].opts
	p := messaging.NewStreamTransport(messaging.Options{Cluster: o.ClusterName, Limits: messaging.DefaultLimits(),
		Listen: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 63, host}), o.Listen.StoragePort)})
	p.SetSelf(id)
	if err := p.Open(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(p.Close)
	return p
}

// A process that reaches the internode port can neither write nor truncate in the name of a member, and a member that
// sends random messages of all verbs stops no node and causes no panic.
func TestHostilePeers(t *testing.T) {
	r := openNodes(t, 63, 2, nil)
	c := r.connect(0)
	forger := r.peerAt(9, 2)
	for verb := messaging.VerbMutation; verb <= messaging.VerbHolds; verb++ {
		if verb == messaging.VerbJoin || verb == messaging.VerbRaft { // Raft's messages have no replies
			continue
		}
		var remote *messaging.RemoteError
		_, err := forger.RequestAddr(t.Context(), r.nodes[0].opts.Internode(), verb, []byte("forged"))
		if !errors.As(err, &remote) || remote.Code != messaging.CodeUnknownPeer {
			t.Errorf("verb %d: %v", verb, err)
		}
	}

	member := r.join(3)
	r.query(c, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}")
	r.query(c, "CREATE TABLE k.t (a int PRIMARY KEY, v int)")
	count := 30_000
	if testing.Short() {
		count = 5_000
	}
	answered := sendRandom(member, count)
	if answered < count/4 {
		t.Errorf("%d of %d messages were answered", answered, count)
	}
	member.Close()
	for i, n := range r.nodes {
		if c := n.guard.Counts(); len(c) > 0 {
			t.Errorf("node %d: panics in %v", i+1, c)
		}
		select {
		case err := <-n.Failed():
			t.Errorf("node %d stops: %v", i+1, err)
		default:
		}
	}
	await.Until(t, "CREATE TABLE succeeds", func() bool {
		_, err := send(c, "CREATE TABLE IF NOT EXISTS k.afterwards (a int PRIMARY KEY)", cqlclient.Options{})
		return err == nil
	})
	if log := r.log.String(); strings.Count(log, "message refused") > 100 {
		t.Errorf("%d refusals are logged", strings.Count(log, "message refused"))
	}
}

// join adds a bare transport to the ring as a member.
func (r *inProcess) join(host byte) *messaging.StreamTransport {
	r.t.Helper()
	p := r.peerAt(host, 0)
	addr := netip.AddrFrom4([4]byte{127, 0, 63, host})
	o := r.nodes[0].opts
	spec, err := json.Marshal(metadata.NodeSpec{Host: ring.HostID{host}, Disk: [16]byte{host}, Datacenter: o.Datacenter,
		Rack: o.Rack, NumTokens: 4,
		Internode: netip.AddrPortFrom(addr, o.Listen.StoragePort), Native: netip.AddrPortFrom(addr, 9042)})
	if err != nil {
		r.t.Fatal(err)
	}
	answer, err := p.RequestAddr(r.t.Context(), o.Internode(), messaging.VerbJoin, spec)
	if err != nil {
		r.t.Fatal(err)
	}
	var admitted struct{ Node ring.NodeID }
	if err := json.Unmarshal(answer, &admitted); err != nil {
		r.t.Fatal(err)
	}
	p.SetSelf(admitted.Node)
	peers := map[ring.NodeID]netip.AddrPort{}
	for _, n := range r.nodes {
		peers[n.cluster.Self()] = n.opts.Internode()
	}
	p.SetPeers(peers)
	await.Until(r.t, "the member is connected", func() bool {
		reached := 0
		for id := range peers {
			done := make(chan error, 1)
			p.Request(id, messaging.VerbControl, []byte{1}, time.Second, func(_ []byte, err error) { done <- err })
			if <-done == nil {
				reached++
			}
		}
		return reached == len(peers)
	})
	return p
}

// sendRandom sends requests of all verbs with random payloads to nodes 1 and 2, and returns how many were answered.
func sendRandom(p *messaging.StreamTransport, count int) int {
	r := rand.New(rand.NewPCG(1, 3))
	var mu sync.Mutex
	answered := 0
	slots := make(chan struct{}, 256)
	for range count {
		verb := messaging.Verb(1 + r.IntN(int(messaging.VerbHolds)+2))
		payload := make([]byte, r.IntN(120))
		for i := range payload {
			if payload[i] = byte(r.Uint32()); r.IntN(3) > 0 {
				payload[i] %= 8 // decoding continues after small numbers
			}
		}
		to := ring.NodeID(1 + r.IntN(2))
		if verb == messaging.VerbRaft {
			p.Send(to, verb, payload)
			continue
		}
		slots <- struct{}{}
		p.Request(to, verb, payload, 200*time.Millisecond, func(_ []byte, err error) {
			mu.Lock()
			var remote *messaging.RemoteError
			if err == nil || errors.As(err, &remote) {
				answered++
			}
			mu.Unlock()
			<-slots
		})
	}
	for range cap(slots) {
		slots <- struct{}{}
	}
	mu.Lock()
	defer mu.Unlock()
	return answered
}
