package simulation

import (
	"flag"
	"testing"
	"testing/cryptotest"
	"time"

	"cqld/internal/tier"
	"cqld/messaging"
)

var (
	forged      = flag.Int("forged", 20_000, "how many messages TestForgedMessagesOfMembers forges with each seed")
	forgedSeeds = flag.Int("forged-seeds", 3, "with how many seeds")
)

// forgeOptions returns the options of a run in which nodes use all verbs.
func forgeOptions(seed uint64) Options {
	o := DefaultOptions(seed)
	o.Nodes, o.Factor, o.Faults, o.FaultKinds = 4, 3, 12*time.Second,
		[]string{"join", "leave", "repair", "flush", "pause", "isolate"}
	o.Workloads = []string{"register", "cas", "counter", "batch", "paging", "truncate", "ordered", "skewed", "churn"}
	return o
}

// verbsForged returns the verbs of which a run of forgeOptions must have forged messages.
func verbsForged() []messaging.Verb {
	return []messaging.Verb{messaging.VerbMutation, messaging.VerbRead, messaging.VerbDigest, messaging.VerbReadRepair,
		messaging.VerbHint,
		messaging.VerbTruncate, messaging.VerbRaft, messaging.VerbJoin, messaging.VerbHeartbeat, messaging.VerbApplied,
		messaging.VerbPaxosPrepare, messaging.VerbPaxosAccept, messaging.VerbPaxosCommit, messaging.VerbCounter,
		messaging.VerbBatchStore, messaging.VerbBatchRemove, messaging.VerbStream, messaging.VerbMerkle,
		messaging.VerbRepaired,
		messaging.VerbPartitions, messaging.VerbTurn, messaging.VerbPass, messaging.VerbNewest,
		messaging.VerbPaxosPurge, messaging.VerbHolds}
}

// TestForgedMessagesOfMembers makes members send forged messages of every verb, and forged replies. Data and metadata
// may be wrong afterwards. No node may panic, which would end this test.
func TestForgedMessagesOfMembers(t *testing.T) {
	if testing.Short() {
		*forgedSeeds = 1
	}
	sent := map[messaging.Verb]int{}
	for i := range *forgedSeeds {
		o := forgeOptions(*firstSeed + uint64(i))
		f := o.forge(Forge{Members: true, Messages: *forged, Burst: max(1, *forged/25_000), Replies: true},
			o.Faults*3/4)
		cryptotest.SetGlobalRandom(t, o.Seed)
		c := NewCluster(o)
		if len(c.failures) > 0 {
			t.Fatal(c.failures)
		}
		for _, w := range c.workloads {
			w.start()
		}
		c.began = c.kernel.Now()
		c.nemesis.torment()
		c.kernel.RunUntil(c.began+10*o.Faults, func() bool { return f.total >= *forged })
		t.Logf("seed %d: %v, %v", o.Seed, f, c.counted)
		for verb, n := range f.sent {
			sent[verb] += n
		}
		c.result()
	}
	for _, verb := range verbsForged() { // in all seeds together
		if !testing.Short() && sent[verb] < 50 {
			t.Errorf("%d messages of verb %d were forged", sent[verb], verb)
		}
	}
}

// TestForgedMessagesOfUnknownPeers makes a machine outside the ring send messages of every verb with the ids of
// members. No workload may fail.
func TestForgedMessagesOfUnknownPeers(t *testing.T) {
	for i := range tier.Draws(2, 1) {
		o := forgeOptions(*firstSeed + uint64(i))
		o.forge(Forge{Messages: 10_000, Burst: 1}, o.Faults/4)
		r := run(t, o)
		report(t, o, r)
		if r.Counted["requests of unknown peers refused"] < 5_000 {
			t.Errorf("%d messages were refused", r.Counted["requests of unknown peers refused"])
		}
	}
}
