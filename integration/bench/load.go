package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// run is one closed loop: a number of requests in flight, until a number of requests is complete or the time is over. A
// run is used once.
type run struct {
	// host:port; connections are distributed over them in turn.
	addresses []string
	// How the n-th request is made. It is called concurrently.
	work     workload
	inFlight int
	// Requests of the whole run, over all connections, and its maximum time.
	ops   int64
	limit time.Duration
	// Inserts use it as their id, so runs on the same data must not overlap.
	first int64 // the number of the first request

	// Requests that were begun; it may exceed ops by the number of slots.
	issued atomic.Int64
}

// outcome is the result of a run. A failed request counts in Errors only, and has no latency. Ops and Errors add up to
// the requests that were answered. Elapsed is the time of the slowest connection.
type outcome struct {
	Ops     int64
	Errors  int64
	Elapsed time.Duration
	Latency *hdrhistogram.Histogram // µs
	// The first failed request, for the message. It is nil if Errors is 0.
	first error
}

// A v4 connection could have 32,768.
const perConnection = 32 // maximum requests in flight on one connection

// newHistogram returns a histogram of 1 µs to 60 s, with three significant digits. Recording allocates nothing. A
// latency above 60 s is not recorded. A value is off by at most a thousandth.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, 60_000_000, 3) }

// do executes the run, over as many connections as needed, distributed over the servers. With an error, the outcome is
// incomplete and must not be reported.
func (r *run) do() (*outcome, error) {
	// At least two connections, and one for each server, so that no server is idle.
	connections := max((r.inFlight+perConnection-1)/perConnection, min(len(r.addresses), r.inFlight), 2)
	total := &outcome{Latency: newHistogram()}
	var mu sync.Mutex
	var wg sync.WaitGroup
	// Each goroutine writes its own element.
	errs := make([]error, connections)
	began := time.Now()
	for i := range connections {
		slots := r.inFlight / connections
		if i < r.inFlight%connections {
			// The remainder is distributed over the first connections.
			slots++
		}
		// seed is the number of the connection, so connections draw different numbers.
		wg.Go(func() {
			// o is never nil, also with an error.
			o, err := r.connection(r.addresses[i%len(r.addresses)], slots, uint64(i), began)
			errs[i] = err
			mu.Lock()
			defer mu.Unlock()
			total.Ops += o.Ops
			total.Errors += o.Errors
			total.Latency.Merge(o.Latency)
			if total.first == nil {
				total.first = o.first
			}
		})
	}
	// A connection that failed ends alone; the others complete the requests.
	wg.Wait()
	total.Elapsed = time.Since(began)
	if err := errors.Join(errs...); err != nil {
		return total, err
	}
	if total.Errors > 0 {
		return total, fmt.Errorf("bench: %d of %d requests failed, the first with: %w", total.Errors,
			total.Ops+total.Errors, total.first)
	}
	return total, nil
}

// slot is one request in flight; its number is the stream id. The answer to a request has its stream, and finds the
// slot by it.
type slot struct {
	sent time.Time
	op   *operation
}

// connection is the loop of one connection: it processes all answers in the buffer, each of which causes a new request;
// then it sends all new requests with one write. A slot has a request in flight or is done. One goroutine does it all,
// without locks; only issued is shared. The loop is:
//
//	slots ── ask ──▶ out ── one write ──▶ server
//	  ▲                                     │
//	  └───────── answer, by its stream ◀────┘
func (r *run) connection(address string, slots int, seed uint64, began time.Time) (*outcome, error) {
	o := &outcome{Latency: newHistogram()}
	sock, err := net.Dial("tcp", address)
	if err != nil {
		return o, err
	}
	defer sock.Close()
	in := &frameReader{src: sock, buf: make([]byte, 256<<10)}
	if err := startup(sock, in); err != nil {
		return o, err
	}
	// Every connection draws from a generator of its own. The time makes every run draw other numbers.
	rng := rand.New(rand.NewPCG(seed, uint64(began.UnixNano())))
	state, out, live := make([]slot, slots), make([]byte, 0, 64<<10), 0
	// ask encodes a request into out, for one write with others. It returns false if the run is over.
	ask := func(i int, now time.Time) bool {
		// One counter for all connections: a fast server gets more of the requests.
		n := r.issued.Add(1)
		// The number that is taken here and not used is lost; see do of target.
		if n > r.ops || now.Sub(began) > r.limit {
			return false
		}
		state[i] = slot{sent: now, op: r.work(r.first+n-1, rng)}
		start := len(out)
		out = appendHeader(out, uint16(i))
		out = append(out, state[i].op.prefix...)
		// Values follow the prefix at once, so nothing is copied.
		out = state[i].op.values(out, r.first+n-1, rng)
		endFrame(out, start)
		return true
	}
	// One time for the first requests, which are sent with one write.
	now := time.Now()
	for i := range slots {
		if ask(i, now) {
			live++
		}
	}
	// Requests that were sent are awaited even if the time is over, so that each has a latency.
	for live > 0 {
		// While answers are buffered, their new requests are collected, and one write sends them all.
		if len(out) > 0 && !in.buffered() {
			if _, err := sock.Write(out); err != nil {
				return o, err
			}
			out = out[:0]
		}
		// It blocks only if no whole answer is buffered.
		header, body, err := in.next()
		if err != nil {
			return o, fmt.Errorf("bench: %s: %w", address, err)
		}
		// The latency includes the time that an answer waits in the buffer: the client's part, which is small while it
		// is not the bottleneck.
		now := time.Now()
		// The stream is the number of the slot.
		i := int(header[2])<<8 | int(header[3])
		if i >= slots {
			return o, fmt.Errorf("bench: an answer on stream %d", i)
		}
		// An error response is counted; the loop continues with the next request.
		if err := checkAnswer(header, body, state[i].op.rows); err != nil {
			o.Errors++
			if o.first == nil {
				o.first = err
			}
		} else {
			o.Ops++
			o.Latency.RecordValue(now.Sub(state[i].sent).Microseconds())
		}
		// A slot that gets no request is done, and stays so.
		if !ask(i, now) {
			live--
		}
	}
	return o, nil
}

// startup starts the protocol on a new connection. The servers require no authentication.
func startup(sock net.Conn, in *frameReader) error {
	// A map with one entry.
	body := []byte("\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0")
	// Version 4, no flags, stream 0, opcode 1, and a length that fits into one byte.
	frame := append([]byte{4, 0, 0, 0, 1, 0, 0, 0, byte(len(body))}, body...)
	if _, err := sock.Write(frame); err != nil {
		return err
	}
	// Opcode 2 is READY.
	header, _, err := in.next()
	if err == nil && header[4] != 2 {
		err = fmt.Errorf("bench: STARTUP answered with opcode %#x", header[4])
	}
	return err
}
