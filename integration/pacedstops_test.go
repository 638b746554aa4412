//go:build integration

package integration

import (
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"cqld/integration/process"
)

// stopsVariable is the environment variable with the number of stops of each kind in TestStopsUnderPacedClients.
const stopsVariable = "CQLD_STOPS"

// TestStopsUnderPacedClients stops nodes under the Go drivers with 64 goroutines of one session, each with at most one
// insert in 300 ms, in step or not. In step, requests may fail at most once in 20 stops. Requests at times that are
// spread over the interval cross the end of a connection in one of 5 to 10 stops (ADR 20), so they may fail once in
// three stops, or at two times. One more is permitted for each time that the machine did not schedule this process;
// requests that fail within rollingTogether count as one. CQLD_STOPS is the number of stops by each method. With
// CQLD_STOPS_KILL=1, nodes are also killed, which shows what the drain avoids.
func TestStopsUnderPacedClients(t *testing.T) {
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	stops := 2
	if n, err := strconv.Atoi(os.Getenv(stopsVariable)); err == nil {
		stops = n
	}
	methods := map[string]func(*process.Server){
		"SIGTERM": (*process.Server).Stop,
		"drain": func(s *process.Server) {
			mustCtl(t, s, "drain")
			s.Stop()
		},
	}
	if os.Getenv(stopsVariable+"_KILL") != "" {
		methods["SIGKILL"] = (*process.Server).Kill
	}
	ring := startRing(t, process.Options{Nodes: 4})
	for _, program := range []string{"paced", "step"} {
		for method, stop := range methods {
			t.Run(program+"/"+method, func(t *testing.T) {
				p := pacedStops{root: root, ring: ring, program: program, stops: stops, stop: stop,
					kills: method == "SIGKILL"}
				p.run(t)
			})
		}
	}
}

// pacedStops stops nodes of a ring one after the other, while one program is running.
type pacedStops struct {
	root    string
	ring    *process.Ring
	program string
	stops   int
	stop    func(*process.Server)
	kills   bool
}

func (p *pacedStops) run(t *testing.T) {
	loads, end := startPrograms(p.root, p.program, servers{p.ring.Addresses(), 4, 4}, "go-gocql", "go-apache")
	stalls := watchStalls(t)
	time.Sleep(rollingBetween)
	var longest time.Duration
	for n := range p.stops {
		s := p.ring.Servers[n%len(p.ring.Servers)]
		began := time.Now()
		p.stop(s)
		longest = max(longest, time.Since(began))
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		if err := p.ring.WaitAgreed(ringStart); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rollingBetween)
	}
	end()
	stalled := stalls()
	t.Logf("%d stops, the longest took %v", p.stops, longest)
	for _, l := range loads {
		failed, times, answered := l.failures()
		t.Logf("%s: %d failed at %d times, %d answered", l.name, failed, times, answered)
		switch {
		case l.installed != nil:
			missing(t, "the "+l.name+" driver", l.installed.Error())
		case l.err != nil:
			t.Errorf("%s: the program failed: %v", l.name, l.err)
		case !p.kills && times > p.permitted()+stalled:
			t.Errorf("%s: requests failed %d times in %d stops", l.name, times, p.stops)
		case answered < 100*p.stops:
			t.Errorf("%s: only %d requests were answered", l.name, answered)
		}
		for _, e := range l.events {
			if e.kind == "error" {
				t.Logf("%s failed at %s: %s", l.name, e.at.Format("15:04:05.000"), e.text)
			}
		}
	}
}

// permitted returns at how many times requests of one driver may fail.
func (p *pacedStops) permitted() int {
	if p.program == "step" {
		return max(p.stops/20, 1)
	}
	return max(p.stops/3, 2)
}

// failures returns how many requests failed and were answered, and at how many times some failed.
func (l *load) failures() (failed, times, answered int) {
	var last time.Time
	for _, e := range l.events {
		switch e.kind {
		case "error":
			if failed++; e.at.Sub(last) > rollingTogether {
				last = e.at
				times++
			}
		case "answered":
			answered = e.number()
		}
	}
	return failed, times, answered
}

// startPrograms starts one program of the named drivers, or of all that have the program "rolling"; end stops them.
func startPrograms(root, program string, s servers, names ...string) (loads []*load, end func()) {
	var ready, ended sync.WaitGroup
	stop := make(chan struct{})
	for _, d := range rollingDrivers(root, names...) {
		l := &load{driver: d, installed: d.installed()}
		loads = append(loads, l)
		if l.installed == nil {
			ready.Add(1)
			ended.Go(func() { l.run(root, program, s, sync.OnceFunc(ready.Done), stop) })
		}
	}
	ready.Wait()
	return loads, func() {
		close(stop)
		ended.Wait()
	}
}
