package tlsconfig

import (
	"crypto/tls"
	"sync/atomic"
)

// Counts counts the handshakes of a port. The zero value is ready for use. It is safe for concurrent use.
type Counts struct {
	// completed includes the handshakes that resumed a session.
	completed, resumed atomic.Int64
	// failures is indexed by position in Reasons.
	failures [reasons]atomic.Int64
}

// reasons is the number of values of Reason. It must be changed with the constants.
const reasons = 10

// HandshakeStats are the handshakes of a port. Failures has an entry for each reason, even if the count is zero, so
// that metrics exist from the start.
type HandshakeStats struct {
	Completed int64 // including those that resumed a session
	Resumed   int64
	Failures  map[Reason]int64
}

// Complete counts a handshake without error.
func (c *Counts) Complete(state tls.ConnectionState) {
	c.completed.Add(1)
	if state.DidResume {
		c.resumed.Add(1)
	}
}

// Fail counts a handshake that failed with err, and returns the reason.
func (c *Counts) Fail(err error) Reason {
	reason := ReasonOf(err)
	for i, r := range Reasons() {
		if r == reason {
			c.failures[i].Add(1)
		}
	}
	return reason
}

// Stats returns the current counts, with all reasons. They are not a consistent snapshot, because handshakes continue.
func (c *Counts) Stats() HandshakeStats {
	s := HandshakeStats{Completed: c.completed.Load(), Resumed: c.resumed.Load(), Failures: map[Reason]int64{}}
	for i, r := range Reasons() {
		s.Failures[r] = c.failures[i].Load()
	}
	return s
}
