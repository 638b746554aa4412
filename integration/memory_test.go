//go:build integration

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// TestMemoryOfReads reads data larger than the memory of a node, by key and by scans of everything.
func TestMemoryOfReads(t *testing.T) {
	const (
		limit        = 400 << 20
		rows         = 500_000 // 1.3 times the limit
		perPartition = 40
		size         = 1000
		reads        = 4000 // by each of readers clients
		readers      = 16
	)
	m := startInMemory(t, limit, process.Options{Nodes: 1})
	run(t, m.dial(t), "CREATE TABLE m.t (k int, c int, v blob, PRIMARY KEY (k, c))")
	m.survives(t, "writes", func(ctx context.Context) error { return m.fill(ctx, "m.t", rows, perPartition, size) })
	m.survives(t, "reads by key", func(ctx context.Context) error {
		return m.each(ctx, readers, func(ctx context.Context, i int, c *cqlclient.Conn) error {
			p, err := c.Prepare("SELECT v FROM m.t WHERE k = ?")
			if err != nil {
				return err
			}
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for range reads / perPartition {
				k := random.IntN(rows / perPartition)
				err := patiently(ctx, func() (*cqlclient.Answer, error) {
					return c.Execute(p.Prepared, cqlclient.Options{Values: []cqlclient.Value{{Bytes: int32Bytes(k)}}})
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	m.survives(t, "scans", func(ctx context.Context) error {
		return m.each(ctx, 2, func(ctx context.Context, _ int, c *cqlclient.Conn) error {
			n, err := pages(ctx, c, "SELECT * FROM m.t", cqlclient.Options{PageSize: 5000})
			if err == nil && n != rows {
				err = fmt.Errorf("%d rows in pages of a scan", n)
			}
			return err
		})
	})
}
