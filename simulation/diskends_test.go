package simulation

import (
	"slices"
	"strings"
	"testing"

	"cqld/internal/tier"
)

// TestDiskFaultsMeetOperations combines each disk fault with each long operation: a corrupt block, a full disk or a
// failed fsync while ranges move, and while hints are replayed. No acknowledged write may be lost, and the ring must
// settle; otherwise the run fails. Package node tests snapshots.
func TestDiskFaultsMeetOperations(t *testing.T) {
	tier.Long(t)
	n := uint64(max(2, *seeds/25))
	for operation, kinds := range map[string]string{
		"ranges move":        "join leave move flush",
		"hints are replayed": "kill isolate one-way flush",
	} {
		for _, fault := range []string{"bit-flip", "disk-full", "fsync-error"} {
			t.Run(fault+" while "+operation, func(t *testing.T) {
				var total Result
				struck := map[string]int{}
				for i := range n {
					o := DefaultOptions(*firstSeed + 31*i)
					o.Workloads = strings.Fields("register set cas")
					o.FaultKinds = append(strings.Fields(kinds), fault, fault)
					if o.Nodes, o.Factor = 4, 3; slices.Contains(o.FaultKinds, "join") {
						o.Factor = 2 + int(i%2)
					}
					r := run(t, o)
					report(t, o, r)
					total.add(r)
					for _, planned := range r.Plan { // "3 bit-flip at 1.2s"
						struck[strings.Fields(planned)[1]]++
					}
				}
				t.Logf("%d operations of clients, %d acknowledged; %v; %d hints replayed", total.Operations,
					total.Acked, struck, total.Stats.HintsReplayed)
				if operation == "hints are replayed" && total.Stats.HintsReplayed == 0 {
					t.Error("no hint was replayed")
				}
				for _, kind := range append(strings.Fields(kinds), fault) {
					if n >= 10 && struck[kind] == 0 {
						t.Errorf("%q did not happen", kind)
					}
				}
			})
		}
	}
}
