package coordinator_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/internal/cputime"
	"cqld/ring"
	"cqld/row"
	"cqld/simulation/scenario"
)

// BenchmarkOrderedWrite writes rows of 150 bytes at QUORUM in a ring of four, with fsync. An op is three writes, in
// blocks of 200: without write_ordering, with it, and with it and a slow clock, so that every write gets another
// timestamp. The time of each kind is reported separately; CPU is that of all nodes.
func BenchmarkOrderedWrite(b *testing.B) {
	for _, flight := range []int{1, 64} {
		b.Run(fmt.Sprint("flight=", flight), func(b *testing.B) {
			n := newBenchRing(b, 4)[0]
			table := n.schema.Table("ks", "t")
			table.Options.WriteOrdering = "quorum"
			write := func(i int, ordered bool, stamp int64, done func(error)) {
				m := &row.Mutation{}
				m.Reset(table.StorageID, row.NewPartitionKey(fmt.Append(nil, i%1000)))
				scenario.AddRow(m, table, "c", string(benchText), stamp)
				n.coord.Write(&coordinator.WriteRequest{
					Mutations: []*row.Mutation{m}, Consistency: ring.Quorum, Type: coordinator.WriteSimple,
					Timeout: 10 * time.Second,
					Ordered: ordered, Stamp: stamp,
				}, done)
			}
			var cpu, took [3]time.Duration
			for left := b.N; left > 0; left -= 200 {
				for way := range 3 {
					cpuBefore, before := cputime.Process(), time.Now()
					writeMany(b, min(left, 200), flight, func(i int, done func(error)) {
						stamp := time.Now().UnixMicro()
						if way == 2 {
							stamp = 1
						}
						write(left+i, way > 0, stamp, done)
					})
					cpu[way] += cputime.Process() - cpuBefore
					took[way] += time.Since(before)
				}
			}
			for way, name := range []string{"plain", "ordered", "moved"} {
				b.ReportMetric(float64(cpu[way].Microseconds())/float64(b.N), "µs-CPU/"+name)
				b.ReportMetric(float64(took[way].Microseconds())*float64(flight)/float64(b.N), "µs/"+name)
			}
			b.ReportMetric(float64(n.coord.Stats().Restamped)/float64(b.N), "moved/op")
		})
	}
}

// writeMany calls write n times, with flight calls in flight.
func writeMany(b *testing.B, n, flight int, write func(i int, done func(error))) {
	var next atomic.Int64
	var wait sync.WaitGroup
	for range flight {
		wait.Go(func() {
			ended := make(chan error, 1)
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				write(i, func(err error) { ended <- err })
				if err := <-ended; err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
}
