package sim

import (
	"flag"
	"os"
	"strings"
	"testing"
	"testing/cryptotest"

	"cqld/storage"
)

var (
	firstSeed = flag.Uint64("seed", 1, "the first seed of TestSim")
	story     = flag.String("story", "", "the file to which TestSimStory writes")
	seeds     = flag.Int("seeds", 100, "how many seeds TestSim runs")
)

// TestSimStory tells what happens in a seed: -seed=7 -story=file.
func TestSimStory(t *testing.T) {
	if *story == "" {
		t.Skip("no -story")
	}
	f, err := os.Create(*story)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o := DefaultOptions(*firstSeed)
	o.Story = f
	report(t, *firstSeed, run(t, o))
}

// run is Run with the randomness that Raft takes from the system, which is the seed's, too.
func run(t *testing.T, o Options) Result {
	cryptotest.SetGlobalRandom(t, o.Seed)
	return Run(o)
}

func report(t *testing.T, seed uint64, r Result) {
	for _, f := range r.Failures {
		t.Errorf("seed %d: %s", seed, f)
	}
	if len(r.Failures) > 0 {
		t.Errorf("%v\n%s", DefaultOptions(seed), strings.Join(r.Plan, "\n"))
		t.Errorf("run it again with: make sim SEED=%d N=1", seed)
	}
}

// TestSim runs registers on clusters that crash, lose messages and fall apart: everything must stay
// linearizable, and nothing acknowledged may be lost.
func TestSim(t *testing.T) {
	if testing.Short() {
		*seeds = min(*seeds, 20)
	}
	var total Result
	counted := map[string]int{}
	for i := range *seeds {
		seed := *firstSeed + uint64(i)
		r := run(t, DefaultOptions(seed))
		report(t, seed, r)
		total.Events += r.Events
		total.Operations += r.Operations
		total.Acked += r.Acked
		for kind, n := range r.Counted {
			counted[kind] += n
		}
		total.Stats.ReadRepairs += r.Stats.ReadRepairs
		total.Stats.HintsStored += r.Stats.HintsStored
		total.Stats.HintsReplayed += r.Stats.HintsReplayed
		total.Stats.Speculated += r.Stats.Speculated
		total.Stats.ShortReads += r.Stats.ShortReads
	}
	t.Logf("%d seeds: %d events, %d operations, %d acknowledged, %v, %+v",
		*seeds, total.Events, total.Operations, total.Acked, counted, total.Stats)
	if *seeds < 20 {
		return // a few may be unlucky
	}
	if total.Acked < 10**seeds {
		t.Errorf("%d operations were acknowledged: the workloads test nothing", total.Acked)
	}
}

// TestSimRepeats shows that a seed is a history: run again, everything happens again.
func TestSimRepeats(t *testing.T) {
	for i := range uint64(max(5, *seeds/100)) {
		seed := *firstSeed + 97*i
		a, b := run(t, DefaultOptions(seed)), run(t, DefaultOptions(seed))
		if a.Trace != b.Trace || a.Events != b.Events {
			t.Errorf("seed %d: %d events with trace %x, then %d with %x", seed, a.Events, a.Trace, b.Events, b.Trace)
		}
	}
}

// TestSimNeedsReadRepair shows that the simulation finds what blocking read repair prevents.
func TestSimNeedsReadRepair(t *testing.T) {
	// Replicas that do not converge would be no news: a read must have gone back in time.
	mustFail(t, func(o *Options) { o.Unsafe.NoReadRepair = true }, "linearizable")
}

// TestSimNeedsFsync shows that it finds writes acknowledged before they are on disk.
func TestSimNeedsFsync(t *testing.T) {
	mustFail(t, func(o *Options) { o.Sync = storage.SyncNone }, "linearizable", "acknowledged")
}

// TestSimNeedsShortReadProtection shows that it finds rows that come back, or are missing.
func TestSimNeedsShortReadProtection(t *testing.T) {
	mustFail(t, func(o *Options) { o.Unsafe.NoShortRead = true }, "should not be there", "is missing")
}

// mustFail runs seeds without a safeguard until one fails in one of the ways.
func mustFail(t *testing.T, without func(*Options), ways ...string) {
	for seed := range uint64(100) {
		o := DefaultOptions(seed)
		without(&o)
		for _, f := range run(t, o).Failures {
			for _, way := range ways {
				if strings.Contains(f, way) {
					t.Logf("seed %d: %s", seed, f)
					return
				}
			}
		}
	}
	t.Error("100 seeds did not find that a safeguard is missing")
}
