package network

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"cqld/coordinator"
	"cqld/messaging"
	"cqld/ring"
)

// Transport is one process's messaging.Transport, with the additional methods for its cluster. It stands for
// messaging.StreamTransport: the parts of a node see the same interface, with addresses, streams and refusals.
type Transport struct {
	net     *Network
	machine Machine
	process Process
	// Dying means that the process will be killed soon, and that some of its messages arrive late (Network.Late).
	Dying bool
	// open means that the process listens: from when it has applied the metadata of its disk until its end. A transport
	// that is not open can send.
	open bool
	// self is 0 until the node is admitted.
	self    ring.NodeID
	lineage messaging.Lineage
	// peers contains the addresses of the members as this process knows them. They may be out of date: a message then
	// reaches another node, or none.
	peers map[ring.NodeID]netip.AddrPort
	// bindings says which machines may act as which nodes: a message of a node from another address is not of a
	// member.
	bindings messaging.Bindings
	// streams contains the other end of each stream; nil means that there is none.
	streams map[ring.NodeID]*Transport
	// services contains the handlers, which the parts of the process register before it listens.
	services map[messaging.Verb]messaging.Service
	// cpuFree is the time at which the process has completed its queued work (OnCPU).
	cpuFree time.Duration
}

// NewTransport returns the transport of a new process of a machine. It does not listen yet.
func NewTransport(net *Network, m Machine, p Process) *Transport {
	return &Transport{net: net, machine: m, process: p, peers: map[ring.NodeID]netip.AddrPort{},
		streams: map[ring.NodeID]*Transport{}, services: map[messaging.Verb]messaging.Service{}}
}

// alive reports whether the process still runs. A machine has another transport, or none, when it has ended.
func (t *Transport) alive() bool { return t.machine.Transport() == t }

// Listen lets messages in: the process must have applied the metadata of its disk.
func (t *Transport) Listen() { t.open = true }

// Listens reports whether the process accepts messages.
func (t *Transport) Listens() bool { return t.open }

// Close ends the transport. Its process has ended.
func (t *Transport) Close() { t.open = false }

// connectEvery is the interval at which streams are checked: it determines when the end, or a new start, of a process
// is detected, unless its network is cut.
const connectEvery = 100 * time.Millisecond

// SetLineage implements cluster.Network.
func (t *Transport) SetLineage(l messaging.Lineage) { t.lineage = l }

// accepts reports whether the handshake of two processes succeeds: both belong to the same recovery of the cluster, or
// one is not a member yet. A process whose cluster continues without it since a recovery gets the notice. o may be nil.
func (t *Transport) accepts(o *Transport) bool {
	if o == nil || t.self == 0 || o.self == 0 || slices.Equal(t.lineage.Recoveries, o.lineage.Recoveries) {
		return true
	}
	for _, side := range [][2]*Transport{{t, o}, {o, t}} {
		old, before, now := side[0], side[0].lineage.Recoveries, side[1].lineage
		if n := len(before); n < len(now.Recoveries) && slices.Equal(before, now.Recoveries[:n]) {
			old.process.Superseded(now.Notice)
		}
	}
	return false
}

// SetSelf implements cluster.Network.
func (t *Transport) SetSelf(id ring.NodeID) { t.self = id }

// SetPeers implements cluster.Network. The map is copied: the caller may change it afterwards.
func (t *Transport) SetPeers(peers map[ring.NodeID]netip.AddrPort) {
	t.peers = maps.Clone(peers)
	t.bindings.Set(peers, t.process.Clock().Monotonic())
}

// Sender returns a process as the receiver of its message sees it: with the address of its machine. A process of
// another recovery, to which production would refuse the connection, is no member.
func (t *Transport) Sender(id ring.NodeID, m Machine) messaging.Sender {
	addr := m.Addr().Addr()
	return messaging.Sender{Node: id, Addr: addr, Member: t.accepts(m.Transport()) &&
		t.bindings.Bound(id, addr, t.process.Clock().Monotonic())}
}

// Handle implements messaging.Transport.
func (t *Transport) Handle(s messaging.Service) { t.services[s.Verb] = s }

// Connect maintains streams to all peers, and repeats itself with a timer of the process. It reports changes of streams
// as production does when a TCP connection is opened or breaks.
func (t *Transport) Connect() {
	for _, id := range slices.Sorted(maps.Keys(t.peers)) {
		to := t.net.byAddr[t.peers[id]]
		if id == t.self || to == nil {
			continue
		}
		out, back := Link{t.machine.Number(), to.Number()}, Link{to.Number(), t.machine.Number()}
		if t.net.cut[out] > 0 || t.net.cut[back] > 0 {
			// Messages that are lost do not show whether the peer is alive, so the stream stays as it was.
			continue
		}
		// Transports are compared, not addresses: a peer that restarted between two checks has lost the stream's state.
		was, is := t.streams[id], to.Transport()
		if is != nil && (!is.open || !t.accepts(is)) {
			is = nil
		}
		if was != nil && was != is {
			t.streams[id] = nil
			// The end of the former stream is reported before the new stream.
			t.process.StreamChanged(id, false)
		}
		if is != nil && was != is {
			t.streams[id] = is
			t.process.StreamChanged(id, true)
		}
	}
	t.process.Clock().After(connectEvery*time.Duration(t.net.Pace), t.Connect)
}

// encode encodes a message of the process in the form of its release.
func (t *Transport) encode(verb messaging.Verb, payload []byte) ([]byte, Decoder) {
	return t.net.Encode(t.process, verb, payload)
}

// link returns the link to a member; false means that its address is unknown.
func (t *Transport) link(to ring.NodeID) (Link, bool) {
	m := t.net.byAddr[t.peers[to]]
	if m == nil {
		return Link{}, false
	}
	return Link{t.machine.Number(), m.Number()}, true
}

// Send implements messaging.Transport. Nothing reports a loss: the sender must not depend on delivery.
func (t *Transport) Send(to ring.NodeID, verb messaging.Verb, payload []byte) {
	l, ok := t.link(to)
	if !ok {
		return
	}
	// The node ID is captured when the message is sent, the machine's address when it arrives. The receiver compares
	// both with its bindings.
	from := t.self
	t.net.note(verb, payload)
	encoded, decode := t.encode(verb, payload)
	t.net.carry(l, fmt.Sprint("send ", verb), encoded, func(b []byte) {
		to := t.net.machines[l.To].Transport()
		if payload, ok := decode(to.process, b); ok {
			to.Serve(verb, to.Sender(from, t.machine), payload, func([]byte, error) {})
		}
	})
}

// Request implements messaging.Transport.
func (t *Transport) Request(to ring.NodeID, verb messaging.Verb, payload []byte, timeout time.Duration,
	reply messaging.Reply) {
	l, ok := t.link(to)
	t.request(l, ok, verb, payload, timeout, reply)
}

// AskAddr implements cluster.Network.
func (t *Transport) AskAddr(addr netip.AddrPort, verb messaging.Verb, payload []byte, timeout time.Duration,
	reply messaging.Reply) {
	// An address that no machine ever had is unreachable, like one at which no process listens.
	m := t.net.byAddr[addr]
	if m == nil {
		t.request(Link{}, false, verb, payload, timeout, reply)
		return
	}
	t.request(Link{t.machine.Number(), m.Number()}, true, verb, payload, timeout, reply)
}

// request sends a request over a link, and calls reply exactly once in the process that sent it: with the answer, with
// ErrTimeout, or with ErrUnreachable. A process that ends meanwhile receives no reply. known is false if there is no
// link.
func (t *Transport) request(l Link, known bool, verb messaging.Verb, payload []byte, timeout time.Duration,
	reply messaging.Reply) {
	answered := false
	answer := func(payload []byte, err error) {
		if !t.alive() {
			return
		}
		t.process.Do(func() {
			// A duplicated request is executed twice and answered twice; an answer may also follow its timeout.
			if !answered {
				answered = true
				t.process.OnStream(func() { reply(payload, err) })
			}
		})
	}
	// ErrUnreachable certainly had no effect. A cut link is not refused: its requests are lost, and time out.
	if !known || t.net.refused(l) {
		t.net.kernel.After(time.Millisecond, "refused", func() { answer(nil, messaging.ErrUnreachable) })
		return
	}
	t.net.kernel.After(t.net.earlyTimeout(timeout), "timeout", func() { answer(nil, messaging.ErrTimeout) })
	// The timeout is already scheduled, so the sender waits as for any lost message.
	if t.net.losesCommits(verb) {
		return
	}
	from := t.self
	t.net.note(verb, payload)
	deliver := func() {
		encoded, decode := t.encode(verb, payload)
		t.net.carry(l, fmt.Sprint("request ", verb), encoded, func(b []byte) {
			to := t.net.machines[l.To].Transport()
			payload, ok := decode(to.process, b)
			if !ok {
				return
			}
			// The link back has its own cuts, delays and losses: an executed request may appear as a timeout to its
			// sender.
			to.Serve(verb, to.Sender(from, t.machine), payload, func(payload []byte, err error) {
				encoded, decode := to.encode(verb, payload)
				t.net.carry(Link{l.To, l.From}, fmt.Sprint("reply ", verb, err), encoded, func(b []byte) {
					if payload, ok := decode(t.process, b); ok {
						answer(t.net.replied(payload), err)
					}
				})
			})
		})
	}
	if t.net.Late != nil && t.Dying && verb == messaging.VerbTruncate && dropsRows(payload) &&
		t.net.Late.Chance(500) {
		// The caller may reuse the memory of payload before it is delivered.
		payload = slices.Clone(payload)
		t.net.kernel.After(t.net.Late.Between(0, lateMax), "late", deliver)
		return
	}
	deliver()
}

// dropsRows reports whether a request to truncate drops rows: epoch, table, id (8), phase.
func dropsRows(payload []byte) bool {
	_, n := binary.Uvarint(payload)
	// The two variable-length numbers are followed by eight bytes of the id, then by the phase.
	_, m := binary.Uvarint(payload[n:])
	return coordinator.TruncationPhase(payload[n+m+8]) == coordinator.TruncationApply
}

// lateMax is the maximum delay of a truncation request: its coordinator may have been killed, and the table truncated
// again and filled.
const lateMax = 10 * time.Second
