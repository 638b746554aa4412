package drain

import (
	"math/rand/v2"
	"testing"
	"time"
)

// testLimits are the defaults of the server.
var testLimits = Limits{Hold: 600 * time.Millisecond, Timeout: 4 * time.Second}

// modelTick is the resolution of the model of clients.
const modelTick = 100 * time.Microsecond

// modelClient is a client with several threads. Each thread sends one request at a time to one of modelNodes nodes. One
// node drains. The client does not repeat requests.
type modelClient struct {
	name     string
	threads  int
	conns    int           // to each node
	interval time.Duration // of a thread that sends at fixed times; 0 for one that pauses after each answer
	pause    time.Duration // after an answer
	inStep   bool          // all threads have the same fixed times
	jitter   time.Duration // of the fixed times
	service  time.Duration // of a request, on average
	notices  time.Duration // from the end of a connection until the client reads it
	most     [2]int        // how many requests may fail in modelDrains drains of a machine without and with other load
	former   [2]int        // how many fail at least if all connections hold their answers until they are quiet
}

const (
	modelNodes  = 4
	modelUnused = 250 * time.Millisecond // before the drain, at most
	modelDrains = 60
)

// modelDelivery is the time in which the reader of the client passes one answer to its thread.
const modelDelivery = modelTick / 2

type modelThread struct {
	next, due time.Duration // next request, and its fixed time without jitter
	waiting   bool
}

// decider is ending, or its predecessor.
type decider interface {
	step(moment) Action
	poll() time.Duration
}

type modelConn struct {
	decider         decider
	requests        int64
	running, held   []modelRequest
	holds           bool
	since, released time.Duration
	polled          time.Duration
	ended           bool
	seen            time.Duration // when the client notices the end
}

type modelRequest struct {
	thread *modelThread
	ready  time.Duration
}

// model is one drain.
type model struct {
	modelClient
	rng     *rand.Rand
	now     time.Duration
	pool    []*modelConn
	workers []*modelThread
	sent    int64         // on all connections to the draining node
	sibling time.Duration // when the end of a connection last released answers; 0 if none did
	lost    int
}

// modelEpoch is when the drain begins.
var modelEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (c modelClient) drain(seed uint64, decide func() decider) *model {
	m := &model{modelClient: c, rng: rand.New(rand.NewPCG(seed, 23))}
	phase := time.Duration(m.rng.Int64N(int64(max(c.interval, 1))))
	for range c.threads {
		w := &modelThread{due: phase}
		if !c.inStep {
			w.due = time.Duration(m.rng.Int64N(int64(max(c.interval, c.pause))))
		}
		w.next = w.due
		m.workers = append(m.workers, w)
	}
	for range c.conns {
		m.pool = append(m.pool, &modelConn{decider: decide()})
	}
	for open := true; open && m.now < 2*testLimits.Timeout; m.now += modelTick {
		open = false
		for _, w := range m.workers {
			if !w.waiting && w.next <= m.now {
				m.send(w)
			}
		}
		for _, p := range m.pool {
			m.serve(p)
			open = open || !p.ended || m.now < p.seen
		}
	}
	return m
}

// spread returns a random time around d.
func (m *model) spread(d time.Duration) time.Duration {
	return d/2 + time.Duration(m.rng.Int64N(int64(d)+1))
}

// send sends the next request of a thread: to the draining node if the client has a connection to it.
func (m *model) send(w *modelThread) {
	w.waiting = true
	var open []*modelConn
	if m.rng.IntN(modelNodes) == 0 {
		for _, p := range m.pool {
			if !p.ended || m.now < p.seen {
				open = append(open, p)
			}
		}
	}
	if len(open) == 0 {
		m.answer(w, m.now+m.spread(m.service))
		return
	}
	p := open[m.rng.IntN(len(open))]
	if p.ended {
		m.lost++
		m.answer(w, p.seen)
		return
	}
	p.requests++
	m.sent++
	p.running = append(p.running, modelRequest{w, m.now + m.spread(m.service)})
	p.polled = 0 // the reader examines each request
}

// answer gives a thread the answer at a time.
func (m *model) answer(w *modelThread, at time.Duration) {
	w.waiting = false
	if m.interval == 0 {
		w.next = at + m.spread(m.pause)
		return
	}
	for w.due += m.interval; at-w.due > m.interval; w.due += m.interval {
	}
	w.next = max(at, w.due+time.Duration(m.rng.Int64N(int64(m.jitter)+1)))
}

// serve lets a connection answer and decide.
func (m *model) serve(p *modelConn) {
	if p.ended {
		return
	}
	running := p.running[:0]
	for _, r := range p.running {
		switch {
		case r.ready > m.now:
			running = append(running, r)
		case p.holds:
			if len(p.held) == 0 {
				p.since = m.now
			}
			p.held = append(p.held, r)
		default:
			m.answer(r.thread, m.now)
		}
	}
	p.running = running
	if len(p.held) > 0 && m.now-p.since >= testLimits.Hold {
		p.released = m.now
		m.release(p, m.now)
	}
	if m.now >= testLimits.Timeout {
		m.abandon(p)
		return
	}
	if m.now < p.polled {
		return
	}
	p.polled = m.now + p.decider.poll()
	seen := moment{now: modelEpoch.Add(m.now), requests: p.requests, client: m.sent, held: p.holds}
	seen.running = len(p.running) > 0
	for _, q := range m.pool {
		seen.parallel += len(q.running)
	}
	for to, from := range map[*time.Time]time.Duration{&seen.released: p.released, &seen.sibling: m.sibling} {
		if from > 0 {
			*to = modelEpoch.Add(from)
		}
	}
	if len(p.held) > 0 {
		seen.since = modelEpoch.Add(p.since)
	}
	switch p.decider.step(seen) {
	case Hold:
		p.holds = true
	case Serve:
		p.holds = false
		m.release(p, m.now)
	case End:
		if len(p.held) > 0 {
			m.sibling = m.now
		}
		read := m.release(p, m.now+m.notices)
		p.ended, p.seen = true, read
	}
}

// abandon ends a connection on which no more requests are read. Those in progress are answered first.
func (m *model) abandon(p *modelConn) {
	p.ended, p.seen = true, m.release(p, m.now+m.notices)
	for _, r := range p.running {
		p.seen = max(p.seen, r.ready+m.notices)
		m.answer(r.thread, r.ready+m.notices)
	}
}

// release delivers all held responses, and returns when the client has read them.
func (m *model) release(p *modelConn, at time.Duration) time.Duration {
	for _, r := range p.held {
		m.answer(r.thread, at+modelTick) // it has to wake up
		at += modelDelivery
	}
	p.held = nil
	return at
}

// formerly is what all connections did before: they held their answers until no request arrived for HoldQuiet.
type formerly struct {
	requests int64
	busy     time.Time
	began    bool
}

func (f *formerly) poll() time.Duration { return Quiet }

func (f *formerly) step(m moment) Action {
	if !f.began {
		f.began, f.busy = true, m.now
		return Hold
	}
	if m.requests > f.requests {
		f.requests, f.busy = m.requests, m.now
	}
	quiet := HoldQuiet
	switch {
	case m.since.IsZero():
		quiet = HoldNoneQuiet
	case m.now.Sub(m.since) >= testLimits.Hold*3/4:
		quiet = HoldQuiet / 2
	}
	if !m.running && m.now.Sub(latest(f.busy, m.released, m.sibling)) >= quiet {
		return End
	}
	return Wait
}

// modelSpeeds are the times of a machine without and with other load.
var modelSpeeds = [2]struct{ service, notices time.Duration }{
	{2 * time.Millisecond, 300 * time.Microsecond},
	{15 * time.Millisecond, 3 * time.Millisecond},
}

// Clients that send at random times lose about their rate × the time until they notice the end: 53 requests a second
// to each node, of 64 threads with an interval of 300 ms, × 3 ms × modelDrains are 10.
var modelClients = []modelClient{
	{name: "4 threads, pause of 5 ms", threads: 4, conns: 1, pause: 5 * time.Millisecond, most: [2]int{1, 2}},
	{name: "4 threads, pause of 5 ms, 2 connections", threads: 4, conns: 2, pause: 5 * time.Millisecond,
		most: [2]int{1, 3}},
	{name: "16 threads, pause of 20 ms", threads: 16, conns: 2, pause: 20 * time.Millisecond, most: [2]int{1, 6}},
	{name: "64 in step, 300 ms", threads: 64, conns: 2, interval: 300 * time.Millisecond, inStep: true,
		jitter: 5 * time.Millisecond, most: [2]int{1, 4}, former: [2]int{60, 300}},
	{name: "64 nearly in step, 300 ms", threads: 64, conns: 2, interval: 300 * time.Millisecond, inStep: true,
		jitter: 40 * time.Millisecond, most: [2]int{1, 4}, former: [2]int{9, 30}},
	{name: "64 out of step, 300 ms", threads: 64, conns: 2, interval: 300 * time.Millisecond,
		jitter: 5 * time.Millisecond, most: [2]int{3, 20}, former: [2]int{120, 120}},
	{name: "64 out of step, 300 ms, 1 connection", threads: 64, conns: 1, interval: 300 * time.Millisecond,
		jitter: 5 * time.Millisecond, most: [2]int{3, 20}, former: [2]int{120, 120}},
	{name: "256 out of step, 1 s", threads: 256, conns: 2, interval: time.Second, jitter: 5 * time.Millisecond,
		most: [2]int{4, 30}},
	{name: "64 in step, 1 s", threads: 64, conns: 2, interval: time.Second, inStep: true,
		jitter: 5 * time.Millisecond, most: [2]int{1, 4}},
	{name: "16 in step, 100 ms", threads: 16, conns: 2, interval: 100 * time.Millisecond, inStep: true,
		jitter: 5 * time.Millisecond, most: [2]int{10, 15}, former: [2]int{60, 60}},
	{name: "1 thread, 300 ms", threads: 1, conns: 2, interval: 300 * time.Millisecond, most: [2]int{1, 1}},
	{name: "idle", threads: 1, conns: 2, interval: time.Hour},
}

// TestModelOfClients drains under models of clients. Few requests fail, and many would if all connections held their
// answers until they were quiet: the model finds what ending avoids.
func TestModelOfClients(t *testing.T) {
	limits := testLimits
	for _, c := range modelClients {
		for load, speeds := range modelSpeeds {
			c.service, c.notices = speeds.service, speeds.notices
			lost, before := 0, 0
			var longest time.Duration
			for seed := range uint64(modelDrains) {
				m := c.drain(seed, func() decider { return newModelEnding(seed, limits) })
				lost += m.lost
				longest = max(longest, m.now)
				if c.former[load] > 0 {
					before += c.drain(seed, func() decider { return &formerly{} }).lost
				}
			}
			if lost > c.most[load] || before < c.former[load] || longest > testLimits.Timeout/2 {
				t.Errorf("%s, load %d: %d requests failed in %d drains, formerly %d; the longest took %v",
					c.name, load, lost, modelDrains, before, longest)
			}
		}
	}
}

// TestModelOfOverload drains while requests take 50 or 100 ms, so that all threads of a client wait for answers most of
// the time: those that send their next request soon after an answer are not taken for threads with times of their own.
func TestModelOfOverload(t *testing.T) {
	limits := testLimits
	for service, most := range map[time.Duration][3]int{
		50 * time.Millisecond: {2, 10, 40}, 100 * time.Millisecond: {2, 18, 300},
	} {
		for i, c := range []modelClient{modelClients[0], modelClients[2], modelClients[3]} {
			c.service, c.notices = service, 4*time.Millisecond
			lost := 0
			for seed := range uint64(modelDrains) {
				lost += c.drain(seed, func() decider { return newModelEnding(seed, limits) }).lost
			}
			if lost > most[i] {
				t.Errorf("%s, requests of %v: %d failed in %d drains", c.name, service, lost, modelDrains)
			}
		}
	}
}

func newModelEnding(seed uint64, limits Limits) *ending {
	unused := time.Duration(seed) * modelUnused / modelDrains
	e := newEnding(modelEpoch, modelEpoch.Add(-unused), 0, limits)
	return &e
}

// TestEndingIsBounded gives ending random moments: it never ends a connection with requests in progress, ends one
// without when most of DrainTimeout has passed, and holds answers only once.
func TestEndingIsBounded(t *testing.T) {
	limits := testLimits
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 4))
		e := newEnding(modelEpoch, modelEpoch.Add(-time.Duration(rng.Int64N(int64(time.Second)))), 5, limits)
		announced := rng.IntN(4) == 0
		if announced {
			e.phase = phaseAnnounced
		}
		m := moment{now: modelEpoch, requests: 5}
		holds := 0
		pause := func() time.Duration { return time.Duration(rng.Int64N(int64(40 * time.Millisecond))) }
		for age := time.Duration(0); age < testLimits.Timeout; age += pause() {
			m.now, m.running = modelEpoch.Add(age), rng.IntN(3) == 0
			if m.parallel = rng.IntN(3); m.running {
				m.parallel++
			}
			if rng.IntN(int(1+seed%20)) == 0 {
				m.requests++
				m.client += int64(1 + rng.IntN(3))
			}
			m.since = time.Time{}
			if m.held && rng.IntN(2) == 0 {
				m.since = m.now.Add(-time.Duration(rng.Int64N(int64(testLimits.Hold))))
			}
			switch action := e.step(m); action {
			case Hold:
				holds++
				m.held = true
			case Serve:
				m.held = false
			case End:
				if m.running || announced && age < testLimits.Timeout*3/4 {
					t.Fatalf("seed %d: the connection ends after %v: %+v", seed, age, m)
				}
			case Wait:
				if !m.running && age >= testLimits.Timeout*3/4 {
					t.Fatalf("seed %d: the connection does not end after %v", seed, age)
				}
			}
		}
		if holds > 1 || announced && holds > 0 {
			t.Errorf("seed %d: answers were held %d times", seed, holds)
		}
	}
}
