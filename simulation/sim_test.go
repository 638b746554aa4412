package simulation

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/cryptotest"
	"time"

	"cqld/internal/cputime"
	"cqld/internal/invariant"
	"cqld/internal/tier"
	"cqld/simulation/kernel"
)

var (
	firstSeed = flag.Uint64("seed", 1, "the first seed of TestSim")
	seeds     = flag.Int("seeds", 150, "how many seeds TestSim runs")
	every     = flag.Uint64("every", 1, "the distance of one seed to the next, for several processes")
	traceFile = flag.String("trace-file", "", "file to which TestSimTrace writes")
	shrink    = flag.Bool("shrink", false, "look for a smaller run that fails, too")

	workloadNames = flag.String("workloads", "", "instead of those that the seed draws")
	kindNames     = flag.String("kinds", "", "of faults, instead of those that the seed draws")
	pointNames    = flag.String("points", "drawn", "where rare ways are taken, instead of what the seed draws")
	faultNumbers  = flag.String("faults", "all", "the faults of the plan that happen")
	clientCount   = flag.Int("clients", 0, "instead of what the seed draws")
	turnCount     = flag.Int("turns", 0, "of each client, at most")
	nodeCount     = flag.Int("nodes", 0, "instead of what the seed draws")
	mostNodes     = flag.Int("most", 0, "members that a ring has at most, instead of what the seed draws")
	farAway       = flag.Duration("far", -1, "delay between data centers, instead of what the seed draws")
	factorList    = flag.String("factors", "", "of the data centers, instead of what the seed draws; -3 is "+
		"SimpleStrategy with 3")
	levelsDrawn = flag.String("levels", "", "true: conditional changes commit at all levels; instead of what the "+
		"seed draws")
	encryptedDisks = flag.String("encrypted", "", "true: disks are encrypted; instead of what the seed draws")
	tornWrites     = flag.String("torn", "", "true: power cuts tear what is not synced; instead of what the seed draws")
	convergeBy     = flag.String("converge", "", "by reads, hints or repair, instead of what the seed draws")
	faultTime      = flag.Duration("for", 0, "how long there are faults")
)

// optionsOf returns the options of a seed, overridden by the flags.
func optionsOf(t *testing.T, seed uint64) Options {
	o := DrawnOptions(seed)
	o.Extra = append(o.Extra, filteredKind(), indexedKind(), viewedKind(), nearestKind(), roledKind())
	if kernel.NewStream(seed, "options filtered").Chance(200) {
		o.Workloads = append(o.Workloads, "filtered")
	}
	if *workloadNames != "" {
		o.Workloads = strings.Split(*workloadNames, ",")
		if o.has("calm") {
			o.Nodes, o.Factor = calmRing(seed)
			o.Datacenters, o.ConvergeBy = nil, ByReads
		}
		if o.has("contended") {
			o.Nodes, o.Factor = contendedRing(seed)
		}
	}
	if o.has("indexed") {
		drawIndexes(&o)
	}
	o.Nodes, o.NodesMost = cmp.Or(*nodeCount, o.Nodes), cmp.Or(*mostNodes, o.NodesMost)
	if *farAway >= 0 {
		o.Far = *farAway
	}
	if *factorList != "" {
		o.setFactors(numbers(t, *factorList))
	}
	if *levelsDrawn != "" {
		o.Levels = *levelsDrawn == "true"
	}
	if *tornWrites != "" {
		o.TornWrites = *tornWrites == "true"
	}
	if *encryptedDisks != "" {
		o.Encrypted = *encryptedDisks == "true"
	}
	o.ConvergeBy = cmp.Or(*convergeBy, o.ConvergeBy)
	if *kindNames != "" {
		o.FaultKinds = strings.Split(*kindNames, ",")
	}
	if *pointNames != "drawn" {
		o.Points = strings.FieldsFunc(*pointNames, func(r rune) bool { return r == ',' })
	}
	if *faultNumbers != "all" {
		o.OnlyFaults = numbers(t, *faultNumbers)
	}
	o.Clients = cmp.Or(*clientCount, o.Clients)
	o.Turns = cmp.Or(*turnCount, o.Turns)
	o.Faults = cmp.Or(*faultTime, o.Faults)
	return o
}

// numbers parses the comma-separated numbers of a flag.
func numbers(t *testing.T, list string) []int {
	all := []int{}
	for _, n := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		number, err := strconv.Atoi(n)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, number)
	}
	return all
}

// TestSimTrace writes the trace of a seed: -seed=7 -trace-file=file.
func TestSimTrace(t *testing.T) {
	if *traceFile == "" {
		t.Skip("no -trace-file")
	}
	f, err := os.Create(*traceFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o := optionsOf(t, *firstSeed)
	o.Trace = f
	report(t, o, run(t, o))
}

// runMost is the processor time after which a run counts as one that does not end. A run takes a second or two; those
// that do not end also use more and more memory.
const runMost = 5 * time.Minute

// run is Run with the randomness that Raft takes from the system, which is also derived from the seed. It names a seed
// that does not end, because one event repeats its work: Run itself detects only events that repeat.
func run(t *testing.T, o Options) Result {
	cryptotest.SetGlobalRandom(t, o.Seed)
	done := make(chan struct{})
	defer close(done)
	go watch(o, done)
	return Run(o)
}

// watch panics if the process uses runMost before done is closed. The time of day would count what other processes use:
// make test runs the simulation with the lowest priority.
func watch(o Options, done <-chan struct{}) {
	for began := cputime.Process(); ; {
		select {
		case <-done:
			return
		case <-time.After(runMost):
		}
		if cputime.Process()-began >= runMost {
			panic(fmt.Sprintf("a run does not end after %v of processor time: %s", runMost, o.Command()))
		}
	}
}

// failuresShown bounds the violations of a run that are printed: the first is the most informative.
const failuresShown = 8

func report(t *testing.T, o Options, r Result) {
	if len(r.Failures) == 0 {
		return
	}
	for i, f := range r.Failures {
		if i == failuresShown {
			t.Errorf("seed %d: and %d more", o.Seed, len(r.Failures)-i)
			break
		}
		t.Errorf("seed %d: %s", o.Seed, f)
	}
	t.Logf("%v\n%s", o, strings.Join(r.Plan, "\n"))
	t.Logf("run it again with: %s", o.Command())
	if *shrink {
		smaller := Shrink(o, 200, func(o Options) bool { return len(run(t, o).Failures) > 0 })
		r := run(t, smaller)
		t.Logf("smaller: %s\n%s\n%s", smaller.Command(), strings.Join(r.Plan, "\n"),
			strings.Join(r.Failures[:min(len(r.Failures), failuresShown)], "\n"))
	}
}

// TestSim runs workloads on clusters with all kinds of faults: no workload may find a violation.
func TestSim(t *testing.T) {
	n := tier.Draws(*seeds, min(*seeds, 10))
	var total Result
	counted := map[string]int{}
	failed, drawn, happened := 0, 0, 0
	for i := range n {
		o := optionsOf(t, *firstSeed+uint64(i)**every)
		if o.changesRing() && o.restarts() {
			drawn++
		}
		r := run(t, o)
		report(t, o, r)
		total.add(r)
		for kind, times := range r.Counted {
			counted[kind] += times
		}
		if len(r.Failures) > 0 {
			failed++
		}
		if struck(r, changesMembers) && struck(r, endsProcesses) {
			happened++
		}
	}
	t.Logf("%d seeds, %d failed: %v of simulated time, %d events, %d operations, %d acknowledged, %+v\nfaults: %v",
		n, failed, total.Time.Round(time.Second), total.Events, total.Operations, total.Acked, total.Stats,
		counted)
	t.Logf("of %d seeds, %d draw changes of the ring and restarts; in %d both happened", n, drawn, happened)
	if n >= 100 && *kindNames == "" && drawn < n/3 {
		t.Errorf("%d of %d seeds draw changes of the ring and restarts: at least a third must", drawn, n)
	}
	if n >= 20 && total.Acked < 10*n { // a few seeds may acknowledge little
		t.Errorf("%d operations were acknowledged: the workloads test nothing", total.Acked)
	}
}

// struck reports whether a fault of a kind happened.
func struck(r Result, of func(kind string) bool) bool {
	for kind, n := range r.Counted {
		if n > 0 && of(kind) {
			return true
		}
	}
	return false
}

// TestShrink shows that the reduced options of a failing run still fail, and are smaller.
func TestShrink(t *testing.T) {
	o := DefaultOptions(7)
	o.FaultKinds = []string{"kill", "pause", "isolate"}
	all := len(plan(o))
	smaller := Shrink(o, 100, func(o Options) bool {
		return slices.Contains(o.OnlyFaults, 3) &&
			slices.Contains(o.OnlyFaults, all)
	})
	if !slices.Equal(smaller.OnlyFaults, []int{3, all}) || smaller.Clients != 1 {
		t.Errorf("faults 3 and %d of %d are needed, left are %v and %d clients", all, all, smaller.OnlyFaults,
			smaller.Clients)
	}
	if c := smaller.Command(); !strings.Contains(c, fmt.Sprintf("-faults=3,%d", all)) {
		t.Errorf("the command %q does not name the faults", c)
	}
}

// TestSimRepeats shows that a seed determines the history: a second run is identical.
func TestSimRepeats(t *testing.T) {
	for i := range uint64(tier.Draws(max(5, *seeds/100), 2)) {
		runTwice(t, DrawnOptions(*firstSeed+97*i))
	}
}

func runTwice(t *testing.T, o Options) {
	t.Helper()
	a, b := run(t, o), run(t, o)
	if a.Trace != b.Trace || a.Events != b.Events {
		t.Errorf("seed %d: %d events with trace %x, then %d with %x", o.Seed, a.Events, a.Trace, b.Events, b.Trace)
	}
}

// mustFail runs n seeds, with a mutant or without a safeguard, until one fails with one of the messages, or violates an
// invariant.
func mustFail(t *testing.T, first, n uint64, without func(*Options), ways ...string) {
	for seed := first; seed < first+n; seed++ {
		o := DefaultOptions(seed)
		without(&o)
		failures, violation := runChecked(t, o)
		if violation != nil {
			t.Logf("seed %d: %v", seed, violation)
			return
		}
		for _, f := range failures {
			if slices.ContainsFunc(ways, func(way string) bool { return strings.Contains(f, way) }) {
				t.Logf("seed %d: %s", seed, f)
				return
			}
		}
	}
	t.Errorf("%d seeds did not find the fault", n)
}

// runChecked is run for faults that may violate an invariant before they violate a guarantee.
func runChecked(t *testing.T, o Options) (failures []string, violation error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case invariant.Violation:
			violation = v
		default:
			panic(v)
		}
	}()
	return run(t, o).Failures, nil
}

// runAlone runs n seeds with the options that change sets, and returns the sum of their results. Each of them executes
// enough operations to test something.
func runAlone(t *testing.T, n, ackedLeast int, change func(*Options)) (total Result) {
	t.Helper()
	for i := range n {
		o := DefaultOptions(*firstSeed + uint64(i))
		change(&o)
		r := run(t, o)
		report(t, o, r)
		if i == 0 && run(t, o).Trace != r.Trace {
			t.Errorf("seed %d: two runs of it differ", o.Seed)
		}
		total.add(r)
	}
	t.Logf("%d seeds: %d operations, %d acknowledged", n, total.Operations, total.Acked)
	if n >= 10 && total.Acked < ackedLeast*n {
		t.Errorf("%d operations were acknowledged: the workload tests nothing", total.Acked)
	}
	return total
}

// alone returns the number of seeds with which a workload runs alone: TestSim runs it, too. With -short, they are too
// few for sums over the runs to say something.
func alone() int { return tier.Draws(max(*seeds/15, min(*seeds, 10)), 3) }
