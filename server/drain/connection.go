package drain

import "time"

// View is the state of a draining connection that its reader observes.
type View struct {
	Now       time.Time
	Requests  int64     // that have been received on the connection
	Executing int       // requests of the connection
	Held      bool      // answers are held; they no longer are when they take too much memory
	Since     time.Time // when the oldest answer was held; zero if none is
	Released  time.Time // when held answers were last sent; zero if none were
}

// Connection is one draining connection. Only its reader uses it.
type Connection struct {
	client  *Client
	ending  ending
	until   time.Time // when the connection is no longer read; zero before Begin
	counted int64     // requests that were added to client.requests
}

// Begin starts draining the connection. last is the time at which bytes were last sent on it, and requests is the
// number of requests received so far. If announced, the client was sent GRACEFUL_DISCONNECT.
func (c *Connection) Begin(now, last time.Time, requests int64, client *Client, announced bool, limits Limits) {
	c.client, c.counted, c.until = client, requests, now.Add(limits.Timeout)
	if c.ending = newEnding(now, last, requests, limits); announced {
		c.ending.phase = phaseAnnounced
	}
}

// Begun reports whether Begin was called.
func (c *Connection) Begun() bool { return !c.until.IsZero() }

// Expired reports whether the connection must no longer be read.
func (c *Connection) Expired(now time.Time) bool { return now.After(c.until) }

// Step returns the action that the reader must execute.
func (c *Connection) Step(v View) Action {
	m := moment{
		now:      v.Now,
		requests: v.Requests,
		client:   v.Requests - c.counted,
		running:  v.Executing > 0,
		parallel: v.Executing,
		held:     v.Held,
		since:    v.Since,
		released: v.Released,
		sibling:  c.sequence(v.Now).lastEnd(),
	}
	if c.client != nil {
		m.client = c.client.requests.Add(m.client)
		c.counted = v.Requests
		m.parallel = max(v.Executing, c.client.executing())
	}
	return c.ending.step(m)
}

// BeginEnd reports whether the connection may end now; if so, the caller must call FinishEnd of the client.
func (c *Connection) BeginEnd(now time.Time) (client *Client, ok bool) {
	client = c.sequence(now)
	return client, client.beginEnd()
}

// sequence returns the client whose other connections the end must consider. It returns nil late in a drain: the
// connections of many processes at one address cannot all end one after the other within Limits.Timeout.
func (c *Connection) sequence(now time.Time) *Client {
	if c.until.Sub(now) < c.ending.limits.Timeout/2 {
		return nil
	}
	return c.client
}

// Poll returns the time after which Step must be called again.
func (c *Connection) Poll() time.Duration {
	if c.client != nil && c.client.many() {
		return Quiet
	}
	return c.ending.poll()
}
