//go:build integration && level

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// TestResidentMemoryIsLevel keeps a node at 200 requests a second on 48 MB of data for the time in CQLD_LEVEL, with the
// machine's memory and with 1 GiB. Once a minute it logs the resident memory that the kernel counts. It must not grow
// in the second half, and must stay below the limit in docs/limits.md.
func TestResidentMemoryIsLevel(t *testing.T) {
	lasts, err := time.ParseDuration(os.Getenv("CQLD_LEVEL"))
	if err != nil {
		t.Fatal(err)
	}
	for name, limit := range map[string]string{"machine": "", "1GiB": "memory_limit: 1GiB"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			residentMemoryIsLevel(t, limit, lasts)
		})
	}
}

func residentMemoryIsLevel(t *testing.T, limit string, lasts time.Duration) {
	const (
		rows         = 48_000
		perPartition = 20
		size         = 1000
		perSecond    = 200
	)
	o := process.Options{Nodes: 1}
	if limit != "" {
		o.YAML = []string{limit}
	}
	m := &memoryRing{Ring: startRing(t, o)}
	c := m.dial(t)
	run(t, c, "CREATE KEYSPACE m WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE m.t (k int, c int, v blob, PRIMARY KEY (k, c))")
	if err := m.fill(t.Context(), "m.t", rows, perPartition, size); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	began := time.Now()
	var half, most int64
	done := make(chan error, 1)
	go func() { done <- m.paced(ctx, perSecond, rows, perPartition, size) }()
	for rest(ctx, time.Minute); ctx.Err() == nil; rest(ctx, time.Minute) {
		resident := m.addsUp(t)
		t.Logf("%v: %d MiB resident", time.Since(began).Round(time.Second), resident>>20)
		if most = max(most, resident); time.Since(began) < lasts/2 {
			half = most
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if most > half+half/20+growthSlack {
		t.Errorf("%d MiB are resident, and %d MiB were after half of the time", most>>20, half>>20)
	}
}

// paced sends so many requests a second until ctx ends: half are writes of random rows, a quarter reads of rows, a
// quarter of partitions.
func (m *memoryRing) paced(ctx context.Context, perSecond, rows, perPartition, size int) error {
	const clients = 10
	err := m.each(ctx, clients, func(ctx context.Context, i int, c *cqlclient.Conn) error {
		random := rand.New(rand.NewPCG(1, uint64(i)))
		every := time.NewTicker(time.Second * clients / time.Duration(perSecond))
		defer every.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			row := random.IntN(rows)
			text, o := fmt.Sprintf("SELECT v FROM m.t WHERE k = %d", row/perPartition), cqlclient.Options{}
			switch n % 4 {
			case 0, 2:
				text = fmt.Sprintf("INSERT INTO m.t (k, c, v) VALUES (%d, %d, ?)", row/perPartition, row%perPartition)
				o.Values = []cqlclient.Value{{Bytes: make([]byte, size)}}
			case 1:
				text += fmt.Sprintf(" AND c = %d", row%perPartition)
			}
			if err := patiently(ctx, func() (*cqlclient.Answer, error) { return c.Query(text, o) }); err != nil &&
				ctx.Err() == nil {
				return err
			}
			select {
			case <-ctx.Done():
			case <-every.C:
			}
		}
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}
