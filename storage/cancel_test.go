package storage

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"cqld/internal/env"
	"cqld/row"
)

// askedClock advances by a second on each call.
type askedClock struct {
	env.Clock
	asked int
}

func (c *askedClock) Monotonic() time.Duration {
	c.asked++
	return time.Duration(c.asked) * time.Second
}

// Reads look regularly at whether they are wanted still, also where they find nothing.
func TestReadsEndEarly(t *testing.T) {
	e := openTest(t, Options{Inline: true})
	defer e.Close()
	const rowsOfOne, partitions = 10_000, 500
	for i := range rowsOfOne {
		mustApply(t, e, putRow("big", i, 1, "v"))
	}
	for i := range partitions {
		mustApply(t, e, putRow(fmt.Sprintf("p%04d", i), 0, 1, "v"))
	}
	deleted := new(row.Mutation)
	deleted.Reset(testTable, row.NewPartitionKey([]byte("big")))
	header := row.NewRow()
	header.Deletion = row.Deletion{Timestamp: 2, LocalTime: 1_000_000}
	deleted.AddHeader(header)
	// Reads find only the last row, and examine all of it: without that row, they would skip the rest.
	mustApply(t, e, deleted, putRow("big", rowsOfOne, 3, "v"))
	before := e.Metrics()
	for name, read := range map[string]func(*env.Cancel) error{
		"one partition": func(c *env.Cancel) error {
			cmd := readKey("big")
			cmd.Cancel = c
			_, err := e.Read(nil, cmd)
			return err
		},
		"a range": func(c *env.Cancel) error {
			cmd := readAll()
			cmd.Cancel = c
			_, err := e.Read(nil, cmd)
			return err
		},
		"the newest timestamp": func(c *env.Cancel) error {
			cmd := readKey("big")
			cmd.Cancel = c
			_, err := e.Newest(cmd)
			return err
		},
	} {
		if err := read(nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		clock := &askedClock{}
		if err := read((*env.Cancel)(nil).Child(clock, 4*time.Second)); !errors.Is(err, context.DeadlineExceeded) ||
			clock.asked != 4 {
			t.Errorf("%s: looked at the time %d times, %v", name, clock.asked, err)
		}
		c := env.NewCancel(context.Background())
		c.Cancel()
		if err := read(c); !errors.Is(err, env.ErrCanceled) {
			t.Errorf("%s: canceled before: %v", name, err)
		}
	}
	after := e.Metrics()
	if n := after.Canceled - before.Canceled; n < 3 {
		t.Errorf("%d canceled reads were counted", n)
	}
	// Two reads of all and a few steps of the others.
	if n := after.Looked - before.Looked; n < 2*rowsOfOne || n > 3*rowsOfOne {
		t.Errorf("%d entries were looked at", n)
	}
}
