package sim

import (
	"fmt"
	"slices"
	"time"

	"cqld/messaging"
	"cqld/ring"
)

// Network carries messages between the nodes, badly.
type Network struct {
	kernel *Kernel
	rand   *Stream
	nodes  map[ring.NodeID]*Node
	cut    map[link]int // by how many faults

	// Loss and Duplicates are per thousand messages; delays lie between the bounds.
	Loss, Duplicates   int
	DelayMin, DelayMax time.Duration
	Slow               int // per thousand messages that take up to SlowMax
	SlowMax            time.Duration
}

// delayMax is how long a message takes at most on a good day.
const delayMax = 3 * time.Millisecond

type link struct{ from, to ring.NodeID }

func newNetwork(k *Kernel, seed uint64) *Network {
	n := &Network{kernel: k, rand: NewStream(seed, "network"), nodes: map[ring.NodeID]*Node{}, cut: map[link]int{}}
	n.calm()
	return n
}

// calm is the network on a good day.
func (n *Network) calm() {
	n.Loss, n.Duplicates, n.Slow = 0, 0, 0
	n.DelayMin, n.DelayMax, n.SlowMax = 100*time.Microsecond, delayMax, time.Second
	clear(n.cut)
}

// carry delivers a message to one incarnation of a node, or does not.
func (n *Network) carry(l link, label string, payload []byte, deliver func(payload []byte)) {
	copies := 1
	if n.cut[l] > 0 || n.rand.Chance(n.Loss) {
		copies = 0
	} else if n.rand.Chance(n.Duplicates) {
		copies = 2
	}
	target, stamp := n.nodes[l.to].life, int64(0)
	if from := n.nodes[l.from].life; from != nil {
		stamp = from.hlc.Last()
	}
	for range copies {
		delay := n.rand.Between(n.DelayMin, n.DelayMax)
		if n.rand.Chance(n.Slow) {
			delay = n.rand.Between(n.DelayMax, n.SlowMax)
		}
		own := slices.Clone(payload)
		n.kernel.trace = fnv(n.kernel.trace, own)
		n.kernel.After(delay, fmt.Sprintf("%d>%d %s", l.from, l.to, label), func() {
			if life := n.nodes[l.to].life; life == target && life != nil {
				life.do(func() {
					_ = life.hlc.Observe(stamp) // one too far ahead is ignored, as in node
					deliver(own)
				})
			}
		})
	}
}

// Transport is one incarnation's messaging.Transport.
type Transport struct {
	net      *Network
	life     *life
	handlers map[messaging.Verb]messaging.Handler
}

var _ messaging.Transport = (*Transport)(nil)

// Handle implements messaging.Transport.
func (t *Transport) Handle(v messaging.Verb, h messaging.Handler) { t.handlers[v] = h }

// Send implements messaging.Transport.
func (t *Transport) Send(to ring.NodeID, verb messaging.Verb, payload []byte) {
	from := t.life.node.id
	t.net.carry(link{from, to}, fmt.Sprint("send ", verb), payload, func(payload []byte) {
		if h := t.net.nodes[to].life.transport.handlers[verb]; h != nil {
			h(from, payload, func([]byte, error) {})
		}
	})
}

// Request implements messaging.Transport.
func (t *Transport) Request(to ring.NodeID, verb messaging.Verb, payload []byte, timeout time.Duration, reply messaging.Reply) {
	from := t.life.node.id
	answered := false
	answer := func(payload []byte, err error) {
		if !t.life.alive() {
			return
		}
		t.life.do(func() {
			if !answered {
				answered = true
				reply(payload, err)
			}
		})
	}
	if t.net.nodes[to].life == nil && t.net.cut[link{from, to}] == 0 {
		// Its machine refuses the connection.
		t.net.kernel.After(time.Millisecond, "refused", func() { answer(nil, messaging.ErrUnreachable) })
		return
	}
	t.net.kernel.After(timeout, "timeout", func() { answer(nil, messaging.ErrTimeout) })
	t.net.carry(link{from, to}, fmt.Sprint("request ", verb), payload, func(payload []byte) {
		h := t.net.nodes[to].life.transport.handlers[verb]
		h(from, payload, func(payload []byte, err error) {
			t.net.carry(link{to, from}, fmt.Sprint("reply ", verb, err), payload, func(payload []byte) { answer(payload, err) })
		})
	})
}
