package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pingcap/go-ycsb/pkg/ycsb"
)

// noScan is what go-ycsb's driver answers to every scan; it sends no request.
const noScan = "scan is not supported"

// counted passes operations to a database, and counts them and their errors: go-ycsb itself only reports times.
type counted struct {
	ycsb.DB
	reads, updates, inserts, scans atomic.Int64

	mu     sync.Mutex
	errors int
	first  error
}

// count records the outcome of an operation.
func (c *counted) count(n *atomic.Int64, err error) error {
	n.Add(1)
	if err != nil && err.Error() != noScan {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.errors++
		if c.first == nil {
			c.first = err
		}
	}
	return err
}

// failure returns an error if an operation failed.
func (c *counted) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.errors == 0 {
		return nil
	}
	return fmt.Errorf("%d operations failed: %w", c.errors, c.first)
}

// Read counts a read of a key that does not exist as an error: workloads read only what was inserted.
func (c *counted) Read(ctx context.Context, table, key string, fields []string) (map[string][]byte, error) {
	row, err := c.DB.Read(ctx, table, key, fields)
	if err == nil && row == nil {
		err = errors.New("the record " + key + " is missing")
	}
	return row, c.count(&c.reads, err)
}

func (c *counted) Update(ctx context.Context, table, key string, values map[string][]byte) error {
	return c.count(&c.updates, c.DB.Update(ctx, table, key, values))
}

func (c *counted) Insert(ctx context.Context, table, key string, values map[string][]byte) error {
	return c.count(&c.inserts, c.DB.Insert(ctx, table, key, values))
}

func (c *counted) Scan(ctx context.Context, table, start string, count int, fields []string) ([]map[string][]byte,
	error) {
	rows, err := c.DB.Scan(ctx, table, start, count, fields)
	return rows, c.count(&c.scans, err)
}

// mix checks that the kinds of operations of a workload were executed, and no others.
func (c *counted) mix(workload string) error {
	reads, updates, inserts, scans := c.reads.Load(), c.updates.Load(), c.inserts.Load(), c.scans.Load()
	total := reads + updates + inserts + scans
	if workload == "f" { // an operation of it reads, or reads and updates
		total -= updates
	}
	kinds := ""
	for i, n := range []int64{reads, updates, inserts, scans} {
		if n > 0 {
			kinds += "ruis"[i : i+1]
		}
	}
	want := map[string]string{"a": "ru", "b": "ru", "c": "r", "d": "ri", "e": "is", "f": "ru"}[workload]
	if kinds != want || total != operations {
		return fmt.Errorf("%d operations, want %d: %d reads, %d updates, %d inserts, %d scans", total, operations,
			reads, updates, inserts, scans)
	}
	return nil
}
