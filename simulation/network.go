package simulation

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"cqld/messaging"
	"cqld/ring"
	"cqld/simulation/kernel"
)

// Network transfers messages between the nodes, unreliably. A message is one event; a connection exists only as the
// pair of processes between which it was sent.
type Network struct {
	kernel *kernel.Kernel
	// rand draws delays, losses and duplicates.
	rand *kernel.Stream
	// work draws the duration of work that blocks. It is not rand, so that changes of the work do not change the
	// messages.
	work *kernel.Stream
	// early draws early timeouts, and lossy the commits that are lost. nil means none.
	early *kernel.Stream
	lossy *kernel.Stream
	// sent is for tests: it is called with every message, also with one that is lost. It may be nil.
	sent func(messaging.Verb, []byte)
	// reply is for tests: it changes a reply. It may be nil.
	reply func([]byte) []byte
	// nodes contains the machines by their numbers, byAddr by their present and former addresses.
	nodes  map[ring.NodeID]*Node
	byAddr map[netip.AddrPort]*Node
	// cut counts the faults that cut each direction of each link. A link works when its count is 0. The count of a link
	// that was never cut is 0.
	cut map[link]int

	// Loss and Duplicates are per thousand messages; delays lie between the bounds.
	Loss, Duplicates   int
	DelayMin, DelayMax time.Duration
	// Slow and SlowMax make some messages late, so that later ones overtake them.
	Slow    int // per thousand messages that take up to SlowMax
	SlowMax time.Duration
	// late draws truncation requests of dying processes that arrive late; nil means none.
	late *kernel.Stream
	// far is the additional delay of a message between data centers.
	far time.Duration
	// cpu is the average processor time of a message or a piece of work; 0 means none. A process executes them one
	// after the other. stall is the average time for which it gets no processor before some of them (stalls).
	cpu, stall time.Duration
}

// delayMax is the maximum delay of a message without faults. Together with a delayed acknowledgment of the disk, a
// request without faults ends within some tens of milliseconds.
const delayMax = 3 * time.Millisecond

// link is one direction between two machines, by the numbers of machines (Node.id), which need not be the IDs of
// members.
type link struct{ from, to ring.NodeID }

// newNetwork returns a network without faults and without machines.
func newNetwork(k *kernel.Kernel, seed uint64) *Network {
	n := &Network{kernel: k, rand: kernel.NewStream(seed, "network"), work: kernel.NewStream(seed, "work"),
		nodes: map[ring.NodeID]*Node{}, byAddr: map[netip.AddrPort]*Node{}, cut: map[link]int{}}
	n.clearFaults()
	return n
}

// clearFaults removes all faults of the network.
func (n *Network) clearFaults() {
	n.Loss, n.Duplicates, n.Slow = 0, 0, 0
	// Delays vary by a factor of thirty even without faults, so messages between two nodes are not delivered in order.
	n.DelayMin, n.DelayMax, n.SlowMax = 100*time.Microsecond, delayMax, time.Second
	n.cpu, n.stall = 0, 0
	clear(n.cut)
}

// refused reports whether the machine at the other end responds that no process listens there. The caller then fails at
// once instead of waiting for the timeout, as with a TCP reset.
func (n *Network) refused(l link) bool {
	process := n.nodes[l.to].process
	return n.cut[l] == 0 && (process == nil || !process.transport.open)
}

// carry delivers a message to the present process of a node, or loses it.
func (n *Network) carry(l link, label string, payload []byte, deliver func(payload []byte)) {
	copies := 1
	// Cuts act when a message is sent. A message that is already under way when a link is cut still arrives.
	if n.cut[l] > 0 || n.rand.Chance(n.Loss) {
		copies = 0
	} else if n.rand.Chance(n.Duplicates) {
		copies = 2
	}
	// A message belongs to a connection with the present process. It does not reach a process that starts before it
	// arrives.
	target, stamp := n.nodes[l.to].process, int64(0)
	from := n.nodes[l.from].process
	if from != nil {
		// Every message carries the sender's latest timestamp, as in package node.
		stamp = from.hlc.Last()
	}
	for range copies {
		delay := n.rand.Between(n.DelayMin, n.DelayMax)
		if n.rand.Chance(n.Slow) {
			delay = n.rand.Between(n.DelayMax, n.SlowMax)
		}
		if n.nodes[l.from].dc != n.nodes[l.to].dc {
			delay += n.far
		}
		// Each copy has its own bytes: handlers own their payload, and the sender may reuse its memory.
		own := slices.Clone(payload)
		// The contents of all messages are part of the trace, so two runs that differ in one byte are found by
		// TestSimRepeats.
		n.kernel.TraceBytes(own)
		n.kernel.After(delay, fmt.Sprintf("%d>%d %s", l.from, l.to, label), func() {
			if process := n.nodes[l.to].process; process == target && process != nil && process.transport.open {
				n.onCPU(process, func() {
					// A timestamp too far ahead is ignored, as in package node.
					_ = process.hlc.Observe(stamp)
					// This covers the synchronous part of the handler only. Work that it queues for a worker has no
					// sender.
					process.serving = from
					deliver(own)
					process.serving = nil
				})
			}
		})
	}
}

// stalls is the number of messages and pieces of work in a thousand before which a process gets no processor for a
// while.
const stalls = 10

// onCPU makes a process execute f after all its earlier work and after the processor time of f. f is dropped if the
// process ends first.
func (n *Network) onCPU(l *process, f func()) {
	if n.cpu == 0 {
		l.do(f)
		return
	}
	// The average is cpu. Work of one process queues up; processes of different nodes do not delay each other.
	cost := n.work.Between(n.cpu/2, n.cpu*3/2)
	if n.stall > 0 && n.work.Chance(stalls) {
		cost += n.work.Between(0, 2*n.stall)
	}
	l.cpuFree = max(l.cpuFree, n.kernel.Now()) + cost
	n.kernel.After(l.cpuFree-n.kernel.Now(), "cpu", func() {
		if l.alive() {
			l.do(f)
		}
	})
}

// note shows a message to the test, before the network may lose it.
func (n *Network) note(verb messaging.Verb, payload []byte) {
	if n.sent != nil {
		n.sent(verb, payload)
	}
}

// replied lets the test change the payload of a reply that has arrived.
func (n *Network) replied(payload []byte) []byte {
	if n.reply != nil {
		return n.reply(payload)
	}
	return payload
}
