package drain

import "time"

// ending decides when a draining connection ends (docs/adr/0020). It does no I/O and reads no clock: the reader of
// the connection calls step with the observed state (moment), and executes the action.
//
// A request that crosses the end is lost, so the moment depends on how the client sends:
//
//  1. watching: requests are answered as usual and counted.
//  2. holding: answers are held. The threads of a client that sends its next request soon after an answer all wait
//     after a short time, and the connection ends when it is quiet.
//  3. pacing: a client whose requests do not become fewer while their answers are held has many threads or sends at
//     fixed times. Each held answer would only release another thread at the end, so answers are not held. The
//     connection ends at the beginning of a pause between requests: after requests that are sent in step, the next ones
//     come when the pause is over.
//  4. announced: the client has been sent GRACEFUL_DISCONNECT, and closes the connection.
type ending struct {
	limits   Limits
	phase    phase
	began    time.Time     // when the connection began to drain
	holds    time.Time     // when the phase holding began, or when held answers were last sent
	watched  int64         // requests of the client in the phase watching
	work     time.Duration // in the phase watching, in which the client's requests were executed, added up
	stepped  time.Time     // when step was last called
	threads  int64         // that the client may have if they do nothing but wait for answers
	before   int64         // requests of the client until holds
	requests int64         // that have been received on the connection
	client   int64         // that have been received on all connections of the client
	arrived  time.Time     // when the last request was received on the connection
	active   time.Time     // when the last request of the client was received, or the drain began
	longest  time.Duration // pause of the client between two requests, at most idleQuiet
}

type phase uint8

const (
	phaseWatching phase = iota
	phaseHolding
	phasePacing
	phaseAnnounced
)

// moment is the state of a draining connection at one moment, as its reader observes it.
type moment struct {
	now      time.Time
	requests int64     // that have been received on the connection
	client   int64     // requests that have been received on all connections of the client since the drain began
	running  bool      // at least one is being executed
	parallel int       // requests of the client that are being executed
	held     bool      // answers are held; they no longer are when they take too much memory
	since    time.Time // when the oldest answer was held; zero if none is
	released time.Time // when held answers were last sent; zero if none were
	sibling  time.Time // when the end of a sibling last released answers; zero if none did
}

// Action is an action of the reader of a draining connection.
type Action uint8

// The actions.
const (
	Wait  Action = iota
	Hold         // hold answers from now on
	Serve        // send the held answers, and hold no more
	End          // send the held answers, and the end
)

// newEnding returns the state of a connection that begins to drain. last is the time at which bytes were last sent on
// it.
func newEnding(now, last time.Time, requests int64, limits Limits) ending {
	return ending{
		limits:   limits,
		began:    now,
		requests: requests,
		arrived:  last,
		active:   now,
		stepped:  now,
	}
}

// step returns the action that the reader must execute.
func (e *ending) step(m moment) Action {
	if m.requests > e.requests {
		e.requests, e.arrived = m.requests, m.now
	}
	if m.client > e.client {
		e.longest = max(e.longest, min(m.now.Sub(e.active), idleQuiet))
		e.client, e.active = m.client, m.now
	}
	if e.phase == phaseWatching {
		e.work += time.Duration(m.parallel) * m.now.Sub(e.stepped)
	}
	e.stepped = m.now
	age := m.now.Sub(e.began)
	switch {
	case !m.running && age >= e.limits.Timeout*3/4:
		return End
	case e.phase == phaseWatching:
		return e.stepWatching(m, age)
	case e.phase == phaseHolding:
		return e.stepHolding(m)
	case e.phase == phasePacing && e.paused(m):
		return End
	}
	return Wait
}

// stepWatching is step in the phase watching.
func (e *ending) stepWatching(m moment, age time.Duration) Action {
	switch {
	case !m.running && m.now.Sub(e.arrived) >= idleQuiet:
		return End
	case age < min(WatchTime, e.limits.Timeout/8):
		return Wait
	}
	e.phase, e.holds, e.watched, e.before = phaseHolding, m.now, m.client, m.client
	e.threads = int64(threadsPerNode * e.work / age)
	return Hold
}

// stepHolding is step in the phase holding.
func (e *ending) stepHolding(m moment) Action {
	if freed := latest(m.sibling, m.released); freed.After(e.holds) { // its threads send again
		e.holds, e.before = freed, m.client
	}
	if held := m.client - e.before; !m.held || held >= max(pacedLeast, e.watched*3/5, e.threads) {
		e.phase = phasePacing
		return Serve
	}
	quiet := max(HoldQuiet, 2*e.longest)
	switch {
	case m.since.IsZero(): // the client may be busy with other nodes
		quiet = max(HoldNoneQuiet, e.longest*3/2)
	// the held answers must be sent soon, so the connection had better end now than later
	case m.now.Sub(m.since) >= e.limits.Hold*3/4:
		quiet = HoldQuiet / 2
	}
	if m.running || m.now.Sub(latest(e.arrived, e.holds)) < quiet {
		return Wait
	}
	return End
}

// paused reports whether the client is at the beginning of a pause: the requests that are sent together have arrived,
// and the next ones are not due. All connections of the client then end together, because each would receive the
// requests of the others. If the client makes no pauses, for example because requests take long or the server cannot
// distinguish several processes, a pause of the connection suffices.
func (e *ending) paused(m moment) bool {
	active, running := e.active, m.parallel > 0
	if m.now.Sub(e.began) > e.limits.Timeout/4 {
		active, running = e.arrived, m.running
	}
	quiet := min(max(e.longest/6, Quiet), pauseQuiet)
	since := m.now.Sub(latest(active, m.sibling))
	return !running && since >= quiet && (since <= max(e.longest/2, 4*quiet) || since >= idleQuiet)
}

// poll returns the time after which step must be called if no request arrives.
func (e *ending) poll() time.Duration {
	if e.phase == phasePacing {
		return pausePoll
	}
	return Quiet
}

func latest(times ...time.Time) (t time.Time) {
	for _, u := range times {
		if u.After(t) {
			t = u
		}
	}
	return t
}
