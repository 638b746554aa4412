//go:build integration

package integration

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cqld/integration/process"
)

const (
	// degradeRatioMost bounds the ratio by which the rate of conditional batches may fall more than that of plain
	// batches.
	degradeRatioMost = 2.5
	// compareRuns is the maximum number of runs of conditional batches that are compared in one state.
	compareRuns = 3
	// upWait is the maximum time in which all nodes notice that a node is up or down.
	upWait = time.Minute
	// degradeFailuresMost is the maximum percentage of batches that may fail.
	degradeFailuresMost = 1
)

// degradation measures the rates of plain and conditional batches in several states of a ring.
type degradation struct {
	*contention
	victim *process.Server
	others []string // the addresses of the other nodes, which clients use in every state
	limit  time.Duration
	rates  map[degradeKey]float64
}

type degradeKey struct {
	state       string
	partitions  int
	conditional bool
}

func (k degradeKey) String() string {
	return fmt.Sprintf("%s, %d partitions, %s", k.state, k.partitions,
		map[bool]string{false: "plain", true: "conditional"}[k.conditional])
}

// TestConditionalBatchesDegradeAsWrites pauses and then kills a node of a ring that has more work than processor time.
// It compares the effect on the rate of conditional batches with the effect on the rate of plain batches, so that the
// result does not depend on the speed of the machine. With CQLD_CONTENTION the runs are longer, and some use 40
// partitions. CQLD_CONTENTION_TIME is the length of a run in seconds, CQLD_CONTENTION_BUSY the number of processes that
// compete for the processors, CQLD_CONTENTION_VICTIM the number of the node that is paused and killed, and
// CQLD_CONTENTION_CLIENTS the number of clients.
func TestConditionalBatchesDegradeAsWrites(t *testing.T) {
	partitions, limit := []int{4}, 1500*time.Millisecond
	if os.Getenv("CQLD_CONTENTION") != "" {
		partitions, limit = []int{4, 40}, time.Duration(envNumber("CQLD_CONTENTION_TIME", 5))*time.Second
	}
	d := &degradation{contention: startContention(t, 4), limit: limit, rates: map[degradeKey]float64{}}
	d.victim = d.ring.Servers[envNumber("CQLD_CONTENTION_VICTIM", 4)-1]
	for _, a := range addressesOf(d.contention) {
		if a != d.victim.Address {
			d.others = append(d.others, a)
		}
	}
	for _, n := range partitions {
		d.measure(degradeKey{"all up", n, false})
		d.measure(degradeKey{"all up", n, true})
	}
	for _, n := range partitions {
		d.compare("one paused", n, d.measurePaused)
	}
	d.victim.Kill()
	d.awaitUp(3)
	for _, n := range partitions {
		d.compare("one dead", n, d.measure)
	}
	d.verify()
}

// measure executes batches while other processes compete for the processors.
func (d *degradation) measure(k degradeKey) {
	d.t.Helper()
	stop := busyCPU(d.t, envNumber("CQLD_CONTENTION_BUSY", 4))
	defer stop()
	servers := d.ring.Servers
	if k.state != "all up" {
		servers = slices.DeleteFunc(slices.Clone(servers), func(s *process.Server) bool { return s == d.victim })
	}
	d.unlessStalled(servers, func() (failure string) {
		before := d.figures(k.state)
		r := d.run(d.others, k.conditional, envNumber("CQLD_CONTENTION_CLIENTS", contentionClients), k.partitions,
			1<<30, d.limit)
		used := d.figures(k.state).since(before)
		failed := r.unknown + r.expired + r.other
		d.rates[k] = float64(r.batches-failed) / r.took.Seconds()
		d.t.Logf("%v: %v\n\t%s", k, r, used.text(r.batches))
		if failed*100 > degradeFailuresMost*r.batches {
			failure = fmt.Sprintf("%v: %d of %d batches fail", k, failed, r.batches)
		}
		return failure
	})
}

// measurePaused executes batches while the victim is paused.
func (d *degradation) measurePaused(k degradeKey) {
	d.t.Helper()
	if err := d.victim.Pause(); err != nil {
		d.t.Fatal(err)
	}
	d.measure(k)
	if err := d.victim.Resume(); err != nil {
		d.t.Fatal(err)
	}
	d.awaitUp(4) // the next run begins before the failure detector has noticed the next pause
}

// compare measures the rates of a state, and fails the test if conditional batches degrade more than plain ones. A
// short run may meet other load on the machine, so conditional batches get up to compareRuns runs.
func (d *degradation) compare(state string, n int, measure func(degradeKey)) {
	d.t.Helper()
	ratio := func(conditional bool) float64 {
		return d.rates[degradeKey{state, n, conditional}] / d.rates[degradeKey{"all up", n, conditional}]
	}
	measure(degradeKey{state, n, false})
	plain := ratio(false)
	for run := 1; ; run++ {
		measure(degradeKey{state, n, true})
		conditional := ratio(true)
		d.t.Logf("%s, %d partitions: plain batches have %.2f of the rate with all nodes up, conditional batches %.2f",
			state, n, plain, conditional)
		if conditional*degradeRatioMost >= plain {
			return
		}
		if run == compareRuns {
			d.t.Errorf("%s, %d partitions: conditional batches have %.2f of the rate with all nodes up, plain "+
				"batches %.2f", state, n, conditional, plain)
			return
		}
	}
}

// awaitUp waits until all nodes except the victim see n nodes up.
func (d *degradation) awaitUp(n int) {
	d.t.Helper()
	up := regexp.MustCompile(`(?m)^cqld_ring_members_up (\d+)$`)
	var seen map[int]string // the numbers of nodes and what they see
	for deadline := time.Now().Add(upWait); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		seen = map[int]string{}
		for i, s := range d.ring.Servers {
			if s == d.victim {
				continue
			}
			if page, err := s.Metrics(d.t.Context()); err != nil {
				seen[i+1] = err.Error()
			} else if found := up.FindStringSubmatch(page); len(found) == 0 {
				seen[i+1] = "no such metric"
			} else if found[1] != strconv.Itoa(n) {
				seen[i+1] = found[1]
			}
		}
		if len(seen) == 0 {
			return
		}
	}
	d.t.Fatalf("after %v, not all nodes see %d nodes up: %v", upWait, n, seen)
}

// ringFigures contains the resource usage and the counters of a ring's processes.
type ringFigures struct {
	cpu            time.Duration
	events, stages map[string]float64 // counts of events, and seconds that rounds spent in each stage
}

// figures sums the figures of the nodes, including the victim's while all nodes are up.
func (d *degradation) figures(state string) ringFigures {
	f := ringFigures{events: map[string]float64{}, stages: map[string]float64{}}
	for _, s := range d.ring.Servers {
		if s == d.victim && state != "all up" {
			continue
		}
		if u, err := s.Usage(); err == nil {
			f.cpu += u.CPU
		}
		page, err := s.Metrics(d.t.Context())
		if err != nil {
			d.t.Fatal(err)
		}
		for _, m := range coordinatorFigure.FindAllStringSubmatch(page, -1) {
			v, err := strconv.ParseFloat(m[3], 64)
			if err != nil {
				d.t.Fatal(err)
			}
			if strings.HasPrefix(m[1], "events_total") {
				f.events[m[2]] += v
			} else {
				f.stages[m[2]] += v
			}
		}
	}
	return f
}

// coordinatorFigure matches a line of /metrics with a count of events or the time of a stage.
var coordinatorFigure = regexp.MustCompile(`(?m)^cqld_coordinator_(events_total\{event|cas_stage_seconds_total\{stage)="(\w+)"\} (\S+)$`)

// since returns the differences from before. It changes the maps of f.
func (f ringFigures) since(before ringFigures) ringFigures {
	f.cpu -= before.cpu
	for name, v := range before.events {
		f.events[name] -= v
	}
	for name, v := range before.stages {
		f.stages[name] -= v
	}
	return f
}

// text shows the processor time of a batch, the average time of a round in each stage, and the events of conditional
// changes.
func (f ringFigures) text(batches int) string {
	s := fmt.Sprintf("CPU %.0f µs a batch", float64(f.cpu.Microseconds())/float64(max(batches, 1)))
	rounds := f.events["cas_round"]
	for _, name := range slices.Sorted(maps.Keys(f.stages)) {
		if v := f.stages[name]; v > 0 && rounds > 0 {
			s += fmt.Sprintf("; %s %.1f ms", name, v/rounds*1000)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.events)) {
		if v := f.events[name]; v > 0 && strings.HasPrefix(name, "cas_") {
			s += fmt.Sprintf("; %s %.0f", name, v)
		}
	}
	return s
}
