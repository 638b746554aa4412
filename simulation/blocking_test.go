package simulation

import "testing"

// TestSimNeedsWorkers removes the workers: each workload must detect that the disk is read in a goroutine for which
// heartbeats, writes or commits wait.
func TestSimNeedsWorkers(t *testing.T) {
	for _, workload := range []string{"register", "cas", "counter", "batch"} {
		t.Run(workload, func(t *testing.T) {
			mustFail(t, 0, 10, func(o *Options) { o.Workloads, o.Unsafe.NoWorkers = []string{workload}, true },
				"on the goroutine of a stream")
		})
	}
}
