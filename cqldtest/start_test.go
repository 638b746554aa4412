package cqldtest_test

import (
	"fmt"
	"testing"
	"time"

	"cqld/cqldtest"
	"cqld/internal/cputime"
)

// BenchmarkStart measures the time to start and to stop a cluster, and the CPU time of the start.
func BenchmarkStart(b *testing.B) {
	for _, nodes := range []int{1, 4} {
		for name, opts := range map[string][]cqldtest.Option{"memory": nil,
			"network in memory": {cqldtest.InMemoryNetwork()}, "disk": {}} {
			b.Run(fmt.Sprintf("nodes=%d/%s", nodes, name), func(b *testing.B) {
				var start, stop, cpu time.Duration
				for b.Loop() {
					all := append([]cqldtest.Option{cqldtest.Nodes(nodes)}, opts...)
					if name == "disk" {
						all = append(all, cqldtest.OnDisk(b.TempDir()))
					}
					began, used := time.Now(), cputime.Process()
					c, err := cqldtest.Open(b.Context(), all...)
					if err != nil {
						b.Fatal(err)
					}
					start, cpu = start+time.Since(began), cpu+cputime.Process()-used
					began = time.Now()
					if err := c.Close(); err != nil {
						b.Fatal(err)
					}
					stop += time.Since(began)
				}
				each := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 / float64(b.N) }
				b.ReportMetric(each(start), "ms/start")
				b.ReportMetric(each(stop), "ms/stop")
				b.ReportMetric(each(cpu), "cpu-ms/start")
			})
		}
	}
}
