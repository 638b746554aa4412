package messaging

import "time"

// Limits bound the resources that a transport uses.
type Limits struct {
	// QueuedBytes bounds the bytes that wait to be written to a peer. At 100 MB/s the default takes a third of a
	// second, longer than any stall that a write timeout of 2 s allows to wait for.
	QueuedBytes int
	// Pending bounds the requests that wait for a peer's reply. The default, 32768, is the number of streams of one
	// connection of the native protocol, all going to one replica.
	Pending int
	// Handlers bounds the blocking requests of a peer that wait or run: a quarter of WorkWaiting, so that one peer
	// cannot use the capacity of all others.
	Handlers int
	// Workers is the number of goroutines that run blocking work, for all peers and this node. Each has one read in
	// progress, and a disk reaches its throughput with fewer.
	Workers int
	// WorkWaiting bounds the tasks that wait for a worker, and WorkBytes the memory of the waiting and the running
	// tasks. At 20,000 reads a second the last one waits for 0.2 s.
	WorkWaiting, WorkBytes int
	// FrameBytes is the maximum size of a frame: a mutation of 16 MiB, and space for what is sent with it.
	FrameBytes int
	// Strangers bounds the open connections of peers that are not known as members. The default is more than all
	// nodes of a large ring that start at the same time. When one more arrives, the oldest is closed.
	Strangers int
	// StrangerBytes bounds the bytes that such a connection may send. A join request is under 1 KiB, and the first
	// messages of a new leader are below 64 KiB.
	StrangerBytes int
	// StrangerTime bounds the duration of such a connection. The default is longer than a seed takes to decide about
	// a join request.
	StrangerTime time.Duration
	// DialBackoffMax is the maximum pause between two attempts to connect to a peer.
	DialBackoffMax time.Duration
}

// expireEvery bounds the delay after which a timeout is reported. It is small compared with the shortest timeouts,
// which are tenths of a second.
const expireEvery = 25 * time.Millisecond

// The maximum number of events in the reply to a traced request, and of the bytes of their texts: a read of a page
// and a conditional change have fewer than ten, of at most 200 bytes each.
const (
	traceEventsMax = 64
	traceBytesMax  = 8 << 10
)

// formerGrace is how long a node that has left the ring may still send requests. It is longer than the time that the
// node waits until the others know that it has left.
const formerGrace = 30 * time.Second

// Bounds of gRPC connections: a peer uses one stream per connection, and its handshake is under 1 KiB.
const (
	streamsMax       = 4
	handshakeBytes   = 8 << 10
	handshakeTimeout = 5 * time.Second
)

// refusalsEvery is the minimum interval between two log messages about refused messages.
const refusalsEvery = 10 * time.Second

// DefaultLimits returns the limits of a node.
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
