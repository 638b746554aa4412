package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"cqld/messaging"
	"cqld/ring"
)

// answersNetwork calls answered for each answer to a join request.
type answersNetwork struct {
	Network
	answered func()
}

func (n answersNetwork) AskAddr(addr netip.AddrPort, verb messaging.Verb, payload []byte, timeout time.Duration,
	reply messaging.Reply) {
	n.Network.AskAddr(addr, verb, payload, timeout, func(b []byte, err error) {
		reply(b, err)
		if err == nil {
			n.answered()
		}
	})
}

// TestJoinSurvivesRemovalOfSeed makes the only seed of a joining node leave the ring permanently before it admits the
// node.
func TestJoinSurvivesRemovalOfSeed(t *testing.T) {
	nodes := startRing(t, 4)
	if err := createKeyspace(nodes[0], "ks"); err != nil {
		t.Fatal(err)
	}
	seed := newTestNode(t, 5, nodes[0].addr)
	seed.fatal = func(error) {} // it learns that it was removed
	seed.mustOpen()
	asked := make(chan struct{})
	once := sync.OnceFunc(func() { close(asked) })
	joiner := newTestNode(t, 6, seed.addr)
	joiner.network = func(n Network) Network { return answersNetwork{n, once} }
	joined := make(chan error, 1)
	go func() { joined <- joiner.open() }()
	select {
	case <-asked: // the seed itself still joins, so the other node must wait
	case <-time.After(patience):
		t.Fatal("the seed did not answer")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := nodes[1].Operations().Abort(ctx, nodes[1].Metadata().Topology.Operations()[0].ID); err != nil {
		t.Fatal(err)
	}
	seed.stop()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); report(nodes...) {
		select {
		case err := <-joined:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
	}
	t.Fatal("the node waits for its seed, which has left")
}

// TestMemberThatCannotAdmitNamesOthers checks the answers of members that cannot admit a node for now.
func TestMemberThatCannotAdmitNamesOthers(t *testing.T) {
	peer := netip.MustParseAddrPort("127.0.0.9:7000")
	for _, c := range []struct {
		reply joinReply
		code  uint8
		fails bool
	}{
		{joinReply{Node: 3, Epoch: 9, Peers: map[ring.NodeID]netip.AddrPort{1: peer}}, 0, false},
		{joinReply{Epoch: 9, Peers: map[ring.NodeID]netip.AddrPort{1: peer}, Why: "not now", Busy: true}, busyCode,
			true},
		{joinReply{Epoch: 9, Peers: map[ring.NodeID]netip.AddrPort{1: peer}, Why: "no member"}, 0, true},
	} {
		b, err := json.Marshal(c.reply)
		if err != nil {
			t.Fatal(err)
		}
		r, err := decodeJoinReply(b)
		var remote *messaging.RemoteError
		if (err != nil) != c.fails || c.fails && (!errors.As(err, &remote) || remote.Code != c.code ||
			remote.Message != c.reply.Why) || r.Peers[1] != peer {
			t.Errorf("%s: %+v, %v", b, r, err)
		}
	}
	if _, err := decodeJoinReply([]byte(`{"Node":`)); err == nil {
		t.Error("a malformed answer was accepted")
	}
}
