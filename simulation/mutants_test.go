package simulation

import (
	"strings"
	"testing"

	"cqld/internal/mutant"
)

// TestMutantsAreFound switches one fault of tools/mutants after the other on: each time, one of a thousand seeds must
// find a violation. Faults that another workload finds are in the tests of that workload, and TestSafeguards has faults
// of what is simulated.
func TestMutantsAreFound(t *testing.T) {
	for _, m := range []struct {
		keys      string
		workloads string
		kinds     string
		change    func(*Options) // nil means no further options
		found     string         // in the failure, one of these
		first     uint64         // of the seeds
	}{
		{
			"hints/every-third-forgotten", "register set", "isolate one-way halves bad-links",
			func(o *Options) {
				o.ConvergeBy = ByHints
				o.spareHints()
			}, "after all hints were delivered", 0,
		},
	} {
		t.Run(m.keys, func(t *testing.T) {
			mutant.Need(t, strings.Fields(m.keys)...)
			mustFail(t, m.first, 1000, func(o *Options) {
				o.Workloads, o.FaultKinds = strings.Fields(m.workloads), strings.Fields(m.kinds)
				if m.change != nil {
					m.change(o)
				}
			}, strings.Split(m.found, "|")...)
		})
	}
}
