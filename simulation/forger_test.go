package simulation

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"cqld/messaging"
	"cqld/ring"
	"cqld/simulation/kernel"
)

// Forge configures the forged messages of a run. Their payloads are random changes of those that the nodes sent, and
// random bytes.
type Forge struct {
	// Members sends the messages from the addresses of members. Otherwise a machine outside the ring sends them, with
	// the ids of members.
	Members bool
	// Messages is the number of messages, Burst how many of them are sent at a time.
	Messages, Burst int
	// Replies changes some of the replies of the nodes, too. It needs Members.
	Replies bool
}

// forgeEvery is the interval between two bursts of forged messages.
const forgeEvery = 200 * time.Microsecond

// samplesMax bounds the payloads of a verb that are kept as models.
const samplesMax = 256

// forger makes and sends forged messages.
type forger struct {
	c       *Cluster
	o       Forge
	rand    *kernel.Stream
	samples map[messaging.Verb][][]byte
	seen    map[messaging.Verb]int
	sent    map[messaging.Verb]int
	total   int
	began   bool
	refused int // with messaging.CodeStranger
}

// forge adds forged messages to the run of o, starting at a time after the start of its clients.
func (o *Options) forge(how Forge, after time.Duration) *forger {
	f := &forger{o: how, samples: map[messaging.Verb][][]byte{}, seen: map[messaging.Verb]int{},
		sent: map[messaging.Verb]int{}}
	o.Made = func(c *Cluster) {
		f.c, f.rand = c, kernel.NewStream(c.options.Seed, "forger")
		c.net.Sent, c.net.Reply = f.note, f.reply
		f.await(after)
	}
	return f
}

// await starts when the clients have run for that time, and there is a model for every verb or three times as long has
// passed.
func (f *forger) await(after time.Duration) {
	f.c.kernel.After(100*time.Millisecond, "forge", func() {
		if f.c.began == 0 || f.c.kernel.Now() < f.c.began+after || f.lacks() && f.c.kernel.Now() < f.c.began+3*after {
			f.await(after)
			return
		}
		f.begin()
	})
}

// lacks reports whether a verb has no model yet.
func (f *forger) lacks() bool {
	return slices.ContainsFunc(verbsForged(), func(v messaging.Verb) bool { return len(f.samples[v]) == 0 })
}

// note adds a payload to the models, with the same probability for all payloads of a verb.
func (f *forger) note(verb messaging.Verb, payload []byte) {
	f.seen[verb]++
	if n := len(f.samples[verb]); n < samplesMax {
		f.samples[verb] = append(f.samples[verb], slices.Clone(payload))
	} else if i := f.rand.Intn(f.seen[verb]); i < n {
		f.samples[verb][i] = slices.Clone(payload)
	}
}

// begin starts to send forged messages.
func (f *forger) begin() {
	f.began = true
	f.burst()
}

// burst sends messages of the verbs that have models and of verbsForged.
func (f *forger) burst() {
	verbs := slices.AppendSeq(verbsForged(), maps.Keys(f.samples))
	slices.Sort(verbs)
	verbs = slices.Compact(verbs)
	for range f.o.Burst {
		if f.total >= f.o.Messages {
			return
		}
		f.send(verbs)
	}
	f.c.kernel.After(forgeEvery, "forge", f.burst)
}

// send delivers one forged message.
func (f *forger) send(verbs []messaging.Verb) {
	target := f.c.nodes[f.rand.Intn(len(f.c.nodes))]
	if target.process == nil || !target.process.transport.Listens() {
		return
	}
	verb := verbs[f.rand.Intn(len(verbs))]
	if f.rand.Chance(5) {
		verb = messaging.Verb(f.rand.Intn(256))
	}
	from, ok := f.sender(target)
	if !ok {
		return
	}
	payload := f.payload(verb)
	f.total++
	f.sent[verb]++
	target.process.Do(func() {
		target.process.transport.Serve(verb, from, payload, func(_ []byte, err error) {
			if r, ok := err.(*messaging.RemoteError); ok && r.Code == messaging.CodeUnknownPeer {
				f.refused++
			}
		})
	})
}

// sender returns the apparent sender of a message to target: another member, or a machine outside that claims to be
// one.
func (f *forger) sender(target *Node) (messaging.Sender, bool) {
	other := f.c.nodes[f.rand.Intn(len(f.c.nodes))]
	if other == target || other.process == nil || other.process.Self() == 0 {
		return messaging.Sender{}, false
	}
	if f.o.Members {
		s := target.process.transport.Sender(other.process.Self(), other)
		return s, s.Member
	}
	outside := &Node{addr: target.addr}
	outside.addr = addrOf(ring.NodeID(60_000))
	s := target.process.transport.Sender(other.process.Self(), outside)
	if s.Member {
		f.c.fail("an outside machine was accepted as node %d", s.Node)
	}
	return s, true
}

// payload returns a forged payload of a verb.
func (f *forger) payload(verb messaging.Verb) []byte {
	samples := f.samples[verb]
	if len(samples) == 0 || f.rand.Chance(30) {
		return f.noise(f.rand.Intn(200))
	}
	p := slices.Clone(samples[f.rand.Intn(len(samples))])
	if f.rand.Chance(50) {
		return p // unchanged, but at another time and from another node
	}
	return f.mutate(p, samples[f.rand.Intn(len(samples))])
}

func (f *forger) noise(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(f.rand.Uint64())
	}
	return p
}

// mutate changes a payload in one to four places.
func (f *forger) mutate(p, other []byte) []byte {
	for range 1 + f.rand.Intn(4) {
		at := 0
		if len(p) > 0 {
			at = f.rand.Intn(len(p))
		}
		switch f.rand.Intn(8) {
		case 0, 1: // a bit
			if len(p) > 0 {
				p[at] ^= 1 << f.rand.Intn(8)
			}
		case 2: // a byte at a boundary
			if len(p) > 0 {
				p[at] = []byte{0, 1, 0x7f, 0x80, 0xff}[f.rand.Intn(5)]
			}
		case 3: // an integer at a boundary
			if len(p)-at >= 8 {
				n := []uint64{0, 1, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1<<63 - 1, 1 << 63, 1<<64 - 1}[f.rand.Intn(8)]
				if f.rand.Chance(500) {
					binary.BigEndian.PutUint64(p[at:], n)
				} else {
					binary.BigEndian.PutUint32(p[at:], uint32(n))
				}
			}
		case 4: // the end is missing
			p = p[:at]
		case 5: // something is inserted
			p = slices.Insert(p, at, f.noise(1+f.rand.Intn(12))...)
		case 6: // a piece is missing
			p = slices.Delete(p, at, min(len(p), at+1+f.rand.Intn(12)))
		case 7: // the rest is another payload's
			if len(other) > 0 {
				p = append(p[:at:at], other[min(at, len(other)):]...)
			}
		}
	}
	return p
}

// reply returns a reply as it arrives.
func (f *forger) reply(payload []byte) []byte {
	if !f.began || !f.o.Replies || f.total >= f.o.Messages || !f.rand.Chance(100) {
		return payload
	}
	f.total++
	return f.mutate(slices.Clone(payload), payload)
}

// String counts the messages by verb.
func (f *forger) String() string {
	return fmt.Sprintf("%d forged messages, %d refused; %v, from %v models", f.total, f.refused, f.sent, f.seen)
}
