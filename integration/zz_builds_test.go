//go:build integration

package integration

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

func TestZZBuilds(t *testing.T) {
	const rows, per, size = 100_000, 20, 1000
	var rings []*memoryRing
	names := []string{"nocgo", "cgo"}
	for _, n := range names {
		ring, err := process.NewRing("/tmp/h23-"+n, t.TempDir(), process.Options{Nodes: 1, YAML: []string{"memory_limit: 1GiB", "block_cache_size: 192MiB"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(ring.Stop)
		if err := ring.Start(ringStart); err != nil {
			t.Fatal(err)
		}
		m := &memoryRing{Ring: ring}
		rings = append(rings, m)
		run(t, m.dial(t), "CREATE KEYSPACE m WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
			"CREATE TABLE m.t (k int, c int, v blob, PRIMARY KEY (k, c))")
	}
	measure := func(what string, ops int, f func(m *memoryRing) error) {
		for i, m := range rings {
			before, _ := m.Servers[0].Usage()
			if err := f(m); err != nil {
				t.Fatal(err)
			}
			after, _ := m.Servers[0].Usage()
			t.Logf("%s %s: %.1f us CPU/op, RSS %d MiB", what, names[i], float64((after.CPU-before.CPU)/time.Nanosecond)/1000/float64(ops), after.RSS>>20)
		}
	}
	ctx := context.Background()
	measure("insert", rows, func(m *memoryRing) error { return m.fill(ctx, "m.t", rows, per, size) })
	for range 2 {
		measure("read", 40000, func(m *memoryRing) error {
			return m.each(ctx, 8, func(ctx context.Context, i int, c *cqlclient.Conn) error {
				p, err := c.Prepare("SELECT v FROM m.t WHERE k = ? AND c = 3")
				if err != nil {
					return err
				}
				random := rand.New(rand.NewPCG(1, uint64(i)))
				for range 5000 {
					k := random.IntN(rows / per)
					if err := patiently(ctx, func() (*cqlclient.Answer, error) {
						return c.Execute(p.Prepared, cqlclient.Options{Values: []cqlclient.Value{{Bytes: int32Bytes(k)}}})
					}); err != nil {
						return err
					}
				}
				return nil
			})
		})
		measure("scan", 2*rows, func(m *memoryRing) error {
			return m.each(ctx, 2, func(ctx context.Context, _ int, c *cqlclient.Conn) error {
				_, err := pages(ctx, c, "SELECT * FROM m.t", cqlclient.Options{PageSize: 1000})
				return err
			})
		})
	}
	measure("insert2", rows, func(m *memoryRing) error { return m.fill(ctx, "m.t", rows, per, size) })
}
