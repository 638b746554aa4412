package sim

import (
	"time"

	"cqld/coordinator"
	"cqld/storage"
)

// Options are what a run is made of. The seed decides all the rest.
type Options struct {
	Seed    uint64
	Nodes   int
	Clients int
	Keys    int
	Turns   int           // of each client, at most
	Faults  time.Duration // how long the nemesis is at work

	Workloads []string // names of workloadKinds

	// What is drawn from the seed, so that rare ways are taken often somewhere.
	PageBytes        int
	SpeculativeRetry string

	Sync   storage.SyncMode
	Unsafe coordinator.Unsafe
	Limits coordinator.Limits
}

// DefaultOptions are those of a run that must not fail: four nodes, eight clients.
func DefaultOptions(seed uint64) Options {
	o := Options{Seed: seed, Nodes: 4, Clients: 8, Keys: 6, Turns: 10_000, Faults: 8 * time.Second, Sync: storage.SyncBatch}
	for _, kind := range workloadKinds() {
		o.Workloads = append(o.Workloads, kind.name)
	}
	r := NewStream(seed, "options")
	policies := []string{"99p", "99p", "ALWAYS", "NEVER", "5ms", "MIN(99p,20ms)"}
	o.SpeculativeRetry = policies[r.Intn(len(policies))]
	if r.Chance(300) {
		o.PageBytes = 100 + r.Intn(400)
	}
	if r.Chance(300) {
		o.Limits.HintBufferBytes = 200
		o.Limits.HintBytesPerSecond = 100_000
	}
	if r.Chance(300) {
		o.Limits.RoundRowsMax = 1
	}
	return o
}
