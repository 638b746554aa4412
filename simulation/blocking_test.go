package simulation

import "testing"

// TestSimNeedsWorkers removes the workers: each workload must find that the disk is read where heartbeats, writes or
// commits wait behind.
func TestSimNeedsWorkers(t *testing.T) {
	for _, workload := range []string{"register", "cas", "counter", "batch"} {
		t.Run(workload, func(t *testing.T) {
			mustFail(t, 0, 10, func(o *Options) { o.Workloads, o.NoWorkers = []string{workload}, true }, "on the goroutine of a stream")
		})
	}
}
