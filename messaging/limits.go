package messaging

import "time"

// Limits bound what one transport holds for one peer.
type Limits struct {
	// QueuedBytes is how much may wait to be written to a peer: at 100 MB/s it is a third of a
	// second's worth, longer than any stall worth waiting out within a 2 s write timeout.
	QueuedBytes int
	// Pending is how many requests may wait for a peer's reply: 32768 is one connection's worth of
	// native protocol streams all going to one replica.
	Pending int
	// Handlers is how many blocking requests of a peer wait or are worked on at once: a quarter of WorkWaiting, so
	// that one peer cannot take the place of all others.
	Handlers int
	// Workers is how many goroutines do what may block, of all peers and of this node: each has a read under way,
	// and a disk reaches its throughput with fewer.
	Workers int
	// WorkWaiting is how many tasks may wait for a worker, and WorkBytes what they and the running ones may hold: at
	// 20,000 reads a second the last one waits for 0.2 s.
	WorkWaiting, WorkBytes int
	// FrameBytes is the greatest frame: a 16 MiB mutation and room for what travels with it.
	FrameBytes int
	// Strangers is how many connections may be open whose peers are not known as members: more than all nodes of a large
	// ring that start at once. When one more comes, the oldest is closed.
	Strangers int
	// StrangerBytes is how much such a connection may send: a request to join is under 1 KiB, and a new leader's first
	// messages are below 64 KiB.
	StrangerBytes int
	// StrangerTime is how long such a connection may be open: longer than a seed takes to decide on a request to join.
	StrangerTime time.Duration
	// DialBackoffMax is the longest pause between two attempts to reach a peer.
	DialBackoffMax time.Duration
}

// expireEvery is how late, at most, a request is told that its time has passed: little beside the shortest
// timeouts, of tenths of a second.
const expireEvery = 25 * time.Millisecond

// The events that a node sends with the answer to a traced request, and the bytes of their texts: a read of a page and
// a conditional change have fewer than ten, of at most 200 bytes each.
const (
	traceEventsMax = 64
	traceBytesMax  = 8 << 10
)

// formerGrace is how long a node that has left the ring may still send requests: longer than it waits for the others to
// know that it has left.
const formerGrace = 30 * time.Second

// Bounds of gRPC connections: a peer uses one stream of a connection, and its handshake is under 1 KiB.
const (
	streamsMax       = 4
	handshakeBytes   = 8 << 10
	handshakeTimeout = 5 * time.Second
)

// refusalsEvery is how often, at most, refused messages are logged.
const refusalsEvery = 10 * time.Second

// DefaultLimits are the bounds a node uses.
func DefaultLimits() Limits {
	return Limits{
		QueuedBytes:    32 << 20,
		Pending:        32768,
		Handlers:       1024,
		Workers:        256,
		WorkWaiting:    4096,
		WorkBytes:      64 << 20,
		FrameBytes:     64 << 20,
		Strangers:      256,
		StrangerBytes:  1 << 20,
		StrangerTime:   10 * time.Second,
		DialBackoffMax: 500 * time.Millisecond,
	}
}
