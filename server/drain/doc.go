// Package drain decides when the connections of a server that stops end, so that no request is lost (docs/adr/0020).
//
// A request that crosses the end of its connection is lost: the driver cannot know whether it was executed. A
// draining connection therefore ends when its client is least likely to send. It continues to read and execute
// requests until then. Connections of one client end one after the other, because client threads that were waiting on
// one may use the next.
//
// The package does no I/O and reads no clock: the server calls Connection.Step with the observed state (View), and
// executes the returned action.
package drain

import "time"

// Limits bound a drain.
type Limits struct {
	// Timeout is how long a connection that is never quiet is read.
	Timeout time.Duration
	// Hold is how long an answer is held.
	Hold time.Duration
}

const (
	// HoldQuiet is how long no request must arrive before a connection with held answers ends. A client whose
	// requests are not answered stops sending when all its threads wait. A thread that pauses for 5 ms between
	// requests of 3 ms, to one of four nodes at random, sends a request to this one within HoldQuiet in 99 of 100
	// cases.
	HoldQuiet = 150 * time.Millisecond
	// HoldNoneQuiet is HoldQuiet of a connection without held answers.
	HoldNoneQuiet = 300 * time.Millisecond

	// WatchTime is how long requests are counted without holding answers. While answers are held, a thread that waits
	// for answers sends one request, whereas it sends ten in WatchTime without holding. A client that, while answers
	// are held, still sends pacedLeast requests and 60 % of its number in WatchTime has threads that do not wait.
	WatchTime  = 300 * time.Millisecond
	pacedLeast = 3

	// In an overloaded ring, all threads wait for answers: a client may have threadsPerNode times as many as requests
	// are executed on this node in parallel, and each sends one while answers are held.
	threadsPerNode = 8

	// Quiet is how often a connection is examined, unless a pause of a paced client is awaited: then every pausePoll.
	Quiet      = 10 * time.Millisecond
	pausePoll  = 2 * time.Millisecond
	pauseQuiet = 100 * time.Millisecond
	idleQuiet  = 600 * time.Millisecond // of a connection that was not used when the drain began

	// Each connection checks for a pause of the client every pausePoll, if the client has at most connectionsPolled
	// connections.
	connectionsPolled = 64
)
