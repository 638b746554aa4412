//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// TestMemoryOfBackups backs up a small node that archives its log, and restores the backup and a later moment, while a
// client is served.
func TestMemoryOfBackups(t *testing.T) {
	const (
		limit = 400 << 20
		rows  = 6_000 // of 2,000 bytes
	)
	location := "file://" + t.TempDir()
	m := startInMemory(t, limit, process.Options{Nodes: 1, YAML: []string{"backup_log: " + location}})
	c := m.dial(t)
	run(t, c, "CREATE TABLE m.t (k int, c int, v blob, PRIMARY KEY (k, c))")
	control := func(args ...string) error {
		out, err := ctl(t, m.Servers[0], args...)
		if err != nil {
			return fmt.Errorf("ctl %v: %w: %s", args, err, out)
		}
		return nil
	}
	m.survives(t, "a backup", func(ctx context.Context) error {
		return errors.Join(m.fill(ctx, "m.t", rows/2, 20, 2000), control("backup", "create", "--to", location),
			m.fill(ctx, "m.t", rows, 20, 2000))
	})
	time.Sleep(margin)
	moment := time.Now().UTC().Format(time.RFC3339Nano)
	m.survives(t, "restorations", func(ctx context.Context) error {
		if err := control("restore", "--from", location, "--table", "m.t", "--as", "m.backup"); err != nil {
			return err
		}
		began := time.Now()
		// The archive follows within seconds.
		for {
			err := control("restore", "--from", location, "--at", moment, "--table", "m.t", "--as", "m.moment")
			if err == nil || ctx.Err() != nil || time.Since(began) > time.Minute {
				return err
			}
			time.Sleep(500 * time.Millisecond)
		}
	})
	for table, want := range map[string]int{"m.backup": rows / 2, "m.moment": rows} {
		if n, err := pages(t.Context(), c, "SELECT k FROM "+table, cqlclient.Options{PageSize: 5000}); n != want {
			t.Errorf("%s has %d rows instead of %d, %v", table, n, want, err)
		}
	}
	if n := m.metric(t, `memory_part_bytes{part="backups"}`); n > limit/20 {
		t.Errorf("%d bytes are counted for backups at the end", n)
	}
	m.addsUp(t)
}
