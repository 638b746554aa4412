package ctl

import (
	"context"
	"math"
	"testing"
	"time"

	"cqld/node/control"
)

// TestSamplingTimeDoesNotOverflow samples for times whose nanoseconds do and do not fit 64 bits. 2^58+1 ms would arrive
// as 1 ms. The node must receive a time that it refuses.
func TestSamplingTimeDoesNotOverflow(t *testing.T) {
	sent := make(chan time.Duration, 1)
	s := sessionOf(t, func(server *control.Server) {
		control.Handle(server, control.TopPartitions, func(_ context.Context, a control.TopArgs,
			_ control.Report) (control.Top, error) {
			sent <- a.Duration
			return control.Top{TableArgs: a.TableArgs}, nil
		})
	})
	const longest = math.MaxInt64 / 1_000_000
	for ms, want := range map[int64]time.Duration{1: time.Millisecond, 600_000: 10 * time.Minute, 0: 0, -1: 0,
		longest: longest * time.Millisecond, longest + 1: longest * time.Millisecond,
		1<<58 + 1: longest * time.Millisecond, 1<<58 - math.MaxInt64: 0, math.MinInt64: 0} {
		if err := (&topPartitionsCommand{Keyspace: "shop", Table: "orders", Duration: ms}).Run(s); err != nil {
			t.Fatalf("%d ms: %v", ms, err)
		}
		if got := <-sent; got != want {
			t.Errorf("%d ms: %s reached the node, want %s", ms, got, want)
		}
	}
}
