//go:build integration

package integration

import (
	"slices"
	"testing"
	"time"

	"cqld/integration/process"
)

const (
	rollingRounds  = 5               // restarts of each of the four nodes
	rollingBetween = 2 * time.Second // from the agreement of all nodes to the next restart
	// rollingCrossed bounds the requests, in total, that a client sends while the server ends their connection. A
	// client that does not run for longer than a draining connection waits, for example during a garbage collection,
	// looks idle. 20 restarts with 75,000 requests lose at most one; they lost ten before connections held their
	// answers.
	rollingCrossed = 2
	// rollingTogether is the time within which all threads of a client send again after a pause. The requests that they
	// lose, at most one for each of a driver's four threads, count as one.
	rollingTogether = 50 * time.Millisecond
)

// TestRollingRestartsFailNoRequest restarts each node of a ring five times under load from drivers that do not retry.
// No request may fail, except for rollingCrossed. Every second round drains the node before it stops it, as users of
// nodetool do.
func TestRollingRestartsFailNoRequest(t *testing.T) {
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	ring := startRing(t, process.Options{Nodes: 4})
	loads, end := startRolling(root, servers{ring.Addresses(), 4, 4})
	stalls := watchStalls(t)
	time.Sleep(rollingBetween)
	began := time.Now()
	var longest time.Duration // of a stop
	rounds := rollingRounds
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		for _, s := range ring.Servers {
			stopping := time.Now()
			if round%2 == 1 {
				mustCtl(t, s, "drain")
			}
			s.Stop()
			longest = max(longest, time.Since(stopping))
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
			if err := ring.WaitAgreed(ringStart); err != nil {
				t.Fatal(err)
			}
			time.Sleep(rollingBetween)
		}
	}
	t.Logf("%d restarts took %v, a stop at most %v", rounds*len(ring.Servers), time.Since(began), longest)
	end()
	excused := rollingCrossed + stalls()
	for _, l := range loads {
		t.Run(l.name, func(t *testing.T) { l.judgeRolling(t, 2000, &excused) })
	}
}

// startRolling starts the programs "rolling" of the named drivers, or of all that have it; end stops them.
func startRolling(root string, s servers, names ...string) (loads []*load, end func()) {
	return startPrograms(root, "rolling", s, names...)
}

// rollingDrivers returns the named drivers, or all that have the program "rolling".
func rollingDrivers(root string, names ...string) (chosen []driver) {
	for _, d := range drivers(root) {
		if d.rolls && (len(names) == 0 || slices.Contains(names, d.name)) {
			chosen = append(chosen, d)
		}
	}
	return chosen
}

// TestDecommissionFailsNoRequest decommissions two nodes of six, one after the other, under load from drivers that do
// not retry.
func TestDecommissionFailsNoRequest(t *testing.T) {
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	ring := startRing(t, process.Options{Nodes: 6})
	loads, end := startRolling(root, servers{ring.Addresses(), 6, 3})
	stalls := watchStalls(t)
	time.Sleep(rollingBetween)
	for _, leaver := range ring.Servers[4:] {
		began := time.Now()
		mustCtl(t, leaver, "decommission")
		t.Logf("a decommission took %v, until %s", time.Since(began), time.Now().Format("15:04:05.000"))
		time.Sleep(rollingBetween)
	}
	end()
	excused := rollingCrossed + stalls()
	for _, l := range loads {
		t.Run(l.name, func(t *testing.T) { l.judgeRolling(t, 500, &excused) })
	}
}

// stallMost bounds the scheduling delay of a process: a server ends a connection on which nothing arrived for about
// twice as long, and cannot distinguish a client that is not scheduled from an idle one.
const stallMost = 75 * time.Millisecond

// watchStalls counts how often this process was not scheduled for stallMost, until the returned function is called.
func watchStalls(t *testing.T) (count func() int) {
	stop, counted := make(chan struct{}), make(chan int, 1)
	go func() {
		const nap = 5 * time.Millisecond
		for n := 0; ; {
			began := time.Now()
			select {
			case <-stop:
				counted <- n
				return
			case <-time.After(nap):
			}
			if time.Since(began) > nap+stallMost {
				n++
			}
		}
	}()
	return func() int {
		close(stop)
		n := <-counted
		if n > 0 {
			t.Logf("the machine was too busy to schedule this process %d times", n)
		}
		return n
	}
}

// judgeRolling fails the test for every failed request that is not excused (for all drivers together), and if fewer
// than least were answered.
func (l *load) judgeRolling(t *testing.T, least int, excused *int) {
	if l.installed != nil {
		missing(t, "the "+l.name+" driver", l.installed.Error())
	}
	counts, answered := map[string]int{}, 0
	var crossed time.Time // of the first request of the latest group of failures
	for _, e := range l.events {
		counts[e.kind]++
		switch e.kind {
		case "error":
			if e.at.Sub(crossed) > rollingTogether {
				crossed = e.at
				*excused--
			}
			if *excused >= 0 {
				t.Logf("a request crossed the end of its connection, at %s: %s", e.at.Format("15:04:05.000"), e.text)
			} else if counts["error"] <= 10 {
				t.Errorf("a request failed at %s: %s", e.at.Format("15:04:05.000"), e.text)
			}
		case "answered":
			answered = e.number()
		}
	}
	if l.err != nil || counts["done"] != 1 {
		t.Errorf("the program failed: %v", l.err)
	}
	if answered < least {
		t.Errorf("only %d requests were answered", answered)
	}
	t.Logf("%d requests were answered, %d failed", answered, counts["error"])
}
