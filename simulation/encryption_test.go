package simulation

import "testing"

// TestSimEncrypted cuts the power of nodes whose disks are encrypted, damages files, and rewrites them with new keys.
func TestSimEncrypted(t *testing.T) {
	for i := range alone() {
		o := DefaultOptions(*firstSeed + uint64(i))
		o.Workloads, o.TornWrites, o.Encrypted = []string{"register", "cas"}, true, true
		o.FaultKinds = []string{"power-torn", "power-all", "power-one", "fsync-error", "write-error", "read-error",
			"bit-flip", "flush", "snapshot"}
		r := run(t, o)
		report(t, o, r)
		if i == 0 && run(t, o).Trace != r.Trace {
			t.Errorf("seed %d: two runs of it differ", o.Seed)
		}
	}
}
