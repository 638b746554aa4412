package admin

import (
	"context"
	"time"

	"cqld/internal/env"
)

// pace bounds the rate of consecutive reads.
type pace struct {
	clock          env.Clock
	bytesPerSecond int64         // 0 means no bound
	began          time.Duration // by clock
	bytes          int64
}

// wait is called for each read, before or after it. It returns when the earlier reads are within the rate, or ctx has
// ended.
func (p *pace) wait(ctx context.Context, bytes int) error {
	if err := ctx.Err(); err != nil || p.bytesPerSecond == 0 {
		return err
	}
	due := p.began + time.Duration(float64(p.bytes)/float64(p.bytesPerSecond)*float64(time.Second))
	p.bytes += int64(bytes)
	left := due - p.clock.Monotonic()
	// Shorter waits are not worth a timer; the next read waits for both.
	if left >= 10*time.Millisecond && !env.Pause(p.clock, left, nil, ctx.Done()) {
		return ctx.Err()
	}
	return nil
}
