// Package network transfers messages between the processes of simulated machines. It loses, delays, reorders and
// duplicates them, and cuts links, by the random numbers of a seed.
//
// A Network has the state of the links, and each process a Transport, which stands for messaging.StreamTransport.
// Package simulation implements Machine and Process, decides when faults begin and end, and sets the exported fields
// of Network accordingly.
package network

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"cqld/internal/env"
	"cqld/messaging"
	"cqld/ring"
	"cqld/simulation/kernel"
)

// Machine is one end of links. It has at most one process at a time.
type Machine interface {
	// Number identifies the machine, and never changes. It need not be the ID of a member.
	Number() ring.NodeID
	// Datacenter returns the name of the data center.
	Datacenter() string
	// Addr returns the present address.
	Addr() netip.AddrPort
	// Transport returns the transport of the present process; nil means that no process runs.
	Transport() *Transport
}

// Process executes what arrives for a Transport.
type Process interface {
	// Do executes f: at once, or when the process continues after a pause.
	Do(f func())
	// OnStream executes f as the reader of a peer's stream does, and OnWorker as a worker does, which may block.
	OnStream(f func())
	OnWorker(f func())
	// Clock returns the clock of the process.
	Clock() env.Clock
	// Stamp returns the latest timestamp of the process. Every message carries it, as in package node.
	Stamp() int64
	// Receive executes f, which handles a message that was sent by from with a timestamp. from is nil if its machine
	// had no process then.
	Receive(from Process, stamp int64, f func())
	// StreamChanged reports that a stream to a member was opened or is broken.
	StreamChanged(peer ring.NodeID, connected bool)
	// Superseded reports that the cluster continues without this process since a recovery.
	Superseded(notice string)
}

// Network transfers messages between the nodes, unreliably. A message is one event; a connection exists only as the
// pair of processes between which it was sent.
type Network struct {
	kernel *kernel.Kernel
	// count counts an event for the result of the run.
	count func(event string)
	// rand draws delays, losses and duplicates.
	rand *kernel.Stream
	// work draws the duration of work that blocks. It is not rand, so that changes of the work do not change the
	// messages.
	work *kernel.Stream
	// machines contains the machines by their numbers, byAddr by their present and former addresses.
	machines map[ring.NodeID]Machine
	byAddr   map[netip.AddrPort]Machine
	// cut counts the faults that cut each direction of each link. A link works when its count is 0. The count of a link
	// that was never cut is 0.
	cut map[Link]int

	// Pace multiplies the interval at which streams are checked, and NoWorkers executes the work of handlers in the
	// goroutine of the stream. Both are set before the first process starts.
	Pace      int
	NoWorkers bool
	// Encode returns the bytes of a message from a process, in the form of its release, and a function that decodes
	// them. New sets it to the form of one release.
	Encode func(from Process, verb messaging.Verb, payload []byte) (b []byte, decode Decoder)
	// Sent is for tests: it is called with every message, also with one that is lost. It may be nil.
	Sent func(messaging.Verb, []byte)
	// Reply is for tests: it changes a reply. It may be nil.
	Reply func([]byte) []byte
	// Early draws early timeouts, and Lossy the commits that are lost. nil means none.
	Early *kernel.Stream
	Lossy *kernel.Stream
	// Loss and Duplicates are per thousand messages; delays lie between the bounds.
	Loss, Duplicates   int
	DelayMin, DelayMax time.Duration
	// Slow and SlowMax make some messages late, so that later ones overtake them.
	Slow    int // per thousand messages that take up to SlowMax
	SlowMax time.Duration
	// Late draws truncation requests that arrive late (Transport.Dying); nil means none.
	Late *kernel.Stream
	// Far is the additional delay of a message between data centers.
	Far time.Duration
	// CPU is the average processor time of a message or a piece of work; 0 means none. A process executes them one
	// after the other. Stall is the average time for which it gets no processor before some of them (stalls).
	CPU, Stall time.Duration
}

// Decoder decodes the bytes of a message as the process that receives them does. It is not ok if the process cannot.
type Decoder func(to Process, b []byte) (payload []byte, ok bool)

// OneForm encodes messages for Network.Encode if all processes run the same release.
func OneForm(_ Process, _ messaging.Verb, payload []byte) ([]byte, Decoder) {
	return payload, func(_ Process, b []byte) ([]byte, bool) { return b, true }
}

// DelayMax is the maximum delay of a message without faults. Together with a delayed acknowledgment of the disk, a
// request without faults ends within some tens of milliseconds.
const DelayMax = 3 * time.Millisecond

// Link is one direction between two machines, by their numbers.
type Link struct{ From, To ring.NodeID }

// New returns a network without faults and without machines. count counts an event for the result of the run.
func New(k *kernel.Kernel, seed uint64, count func(event string)) *Network {
	n := &Network{kernel: k, count: count, rand: kernel.NewStream(seed, "network"),
		work: kernel.NewStream(seed, "work"), machines: map[ring.NodeID]Machine{},
		byAddr: map[netip.AddrPort]Machine{}, cut: map[Link]int{}, Pace: 1, Encode: OneForm}
	n.ClearFaults()
	return n
}

// Attach adds a machine, or its new address. Messages to a former address still reach it, as if the machine had
// several.
func (n *Network) Attach(m Machine) { n.machines[m.Number()], n.byAddr[m.Addr()] = m, m }

// Cut separates links until Restore is called with them. Cuts may overlap: a link works when all have ended.
func (n *Network) Cut(links []Link) {
	for _, l := range links {
		n.cut[l]++
	}
}

// Restore ends one cut of each link. It must not be called for a cut that ClearFaults has ended.
func (n *Network) Restore(links []Link) {
	for _, l := range links {
		n.cut[l]--
	}
}

// IsCut reports whether any link is cut.
func (n *Network) IsCut() bool {
	for _, faults := range n.cut {
		if faults > 0 {
			return true
		}
	}
	return false
}

// ClearFaults removes all faults of the links. It leaves Early, Lossy, Late and Far as they are.
func (n *Network) ClearFaults() {
	n.Loss, n.Duplicates, n.Slow = 0, 0, 0
	// Delays vary by a factor of thirty even without faults, so messages between two nodes are not delivered in order.
	n.DelayMin, n.DelayMax, n.SlowMax = 100*time.Microsecond, DelayMax, time.Second
	n.CPU, n.Stall = 0, 0
	clear(n.cut)
}

// refused reports whether the machine at the other end responds that no process listens there. The caller then fails at
// once instead of waiting for the timeout, as with a TCP reset.
func (n *Network) refused(l Link) bool {
	target := n.machines[l.To].Transport()
	return n.cut[l] == 0 && (target == nil || !target.open)
}

// carry delivers a message to the present process of a node, or loses it.
func (n *Network) carry(l Link, label string, payload []byte, deliver func(payload []byte)) {
	copies := 1
	// Cuts act when a message is sent. A message that is already under way when a link is cut still arrives.
	if n.cut[l] > 0 || n.rand.Chance(n.Loss) {
		copies = 0
	} else if n.rand.Chance(n.Duplicates) {
		copies = 2
	}
	// A message belongs to a connection with the present process. It does not reach a process that starts before it
	// arrives.
	target, stamp := n.machines[l.To].Transport(), int64(0)
	// It stays nil, not a nil pointer, if no process runs.
	var sender Process
	if from := n.machines[l.From].Transport(); from != nil {
		sender, stamp = from.process, from.process.Stamp()
	}
	for range copies {
		delay := n.rand.Between(n.DelayMin, n.DelayMax)
		if n.rand.Chance(n.Slow) {
			delay = n.rand.Between(n.DelayMax, n.SlowMax)
		}
		if n.machines[l.From].Datacenter() != n.machines[l.To].Datacenter() {
			delay += n.Far
		}
		// Each copy has its own bytes: handlers own their payload, and the sender may reuse its memory.
		own := slices.Clone(payload)
		// The contents of all messages are part of the trace, so two runs that differ in one byte are found by
		// TestSimRepeats.
		n.kernel.TraceBytes(own)
		n.kernel.After(delay, fmt.Sprintf("%d>%d %s", l.From, l.To, label), func() {
			if target != nil && target.alive() && target.open {
				target.OnCPU(func() { target.process.Receive(sender, stamp, func() { deliver(own) }) })
			}
		})
	}
}

// stalls is the number of messages and pieces of work in a thousand before which a process gets no processor for a
// while.
const stalls = 10

// OnCPU makes the process execute f after all its earlier work and after the processor time of f. f is dropped if the
// process ends first.
func (t *Transport) OnCPU(f func()) {
	n := t.net
	if n.CPU == 0 {
		t.process.Do(f)
		return
	}
	// The average is CPU. Work of one process queues up; processes of different nodes do not delay each other.
	cost := n.work.Between(n.CPU/2, n.CPU*3/2)
	if n.Stall > 0 && n.work.Chance(stalls) {
		cost += n.work.Between(0, 2*n.Stall)
	}
	t.cpuFree = max(t.cpuFree, n.kernel.Now()) + cost
	n.kernel.After(t.cpuFree-n.kernel.Now(), "cpu", func() {
		if t.alive() {
			t.process.Do(f)
		}
	})
}

// note shows a message to the test, before the network may lose it.
func (n *Network) note(verb messaging.Verb, payload []byte) {
	if n.Sent != nil {
		n.Sent(verb, payload)
	}
}

// replied lets the test change the payload of a reply that has arrived.
func (n *Network) replied(payload []byte) []byte {
	if n.Reply != nil {
		return n.Reply(payload)
	}
	return payload
}

// losesCommits reports whether a request is the commit of a conditional change that gets lost. It draws only for
// commits while Lossy is set, so other runs draw nothing.
func (n *Network) losesCommits(verb messaging.Verb) bool {
	// Eight of ten commits; a commit to the coordinator's own replica is no message, and is not lost.
	return verb == messaging.VerbPaxosCommit && n.Lossy != nil && n.Lossy.Chance(800)
}

// earlyTimeout returns the timeout of a request between nodes, which may expire before any answer arrives. A tenth of
// the requests have a timeout between zero and the given one; their answers then arrive too late.
func (n *Network) earlyTimeout(timeout time.Duration) time.Duration {
	if n.Early != nil && n.Early.Chance(100) {
		return n.Early.Between(0, timeout)
	}
	return timeout
}
