package ctl

import (
	"context"
	"math"
	"strings"
	"testing"

	"cqld/node/control"
)

// TestBuildThroughputIsSentInBytes sets rates whose number of bytes does and does not fit into 64 bits. A rate that
// does not must not reach the node: 2^44 MiB would arrive as 0, which means no limit.
func TestBuildThroughputIsSentInBytes(t *testing.T) {
	sent := make(chan int64, 1)
	s := sessionOf(t, func(server *control.Server) {
		control.Handle(server, control.SetBuildThroughput, func(_ context.Context, a control.Throughput,
			_ control.Report) (control.Throughput, error) {
			sent <- a.BytesPerSecond
			return a, nil
		})
	})
	for _, rate := range []int64{0, 1, 32, math.MaxInt64 >> 20} {
		if err := (&setBuildThroughputCommand{Rate: rate}).Run(s); err != nil {
			t.Fatalf("%d MiB/s: %v", rate, err)
		}
		if got := <-sent; got != rate<<20 {
			t.Errorf("%d MiB/s: %d bytes per second reached the node", rate, got)
		}
	}
	for _, rate := range []int64{math.MaxInt64>>20 + 1, 1 << 44, math.MaxInt64, -1, -1 << 44, math.MinInt64} {
		err := (&setBuildThroughputCommand{Rate: rate}).Run(s)
		if err == nil || !strings.Contains(err.Error(), "0 means no bound") {
			t.Errorf("%d MiB/s: %v", rate, err)
		}
		select {
		case got := <-sent:
			t.Errorf("%d MiB/s: %d bytes per second reached the node", rate, got)
		default:
		}
	}
}
