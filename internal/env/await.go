package env

import (
	"context"
	"time"
)

// Await calls begin and then waits until done was called, or until ctx ends, whose error it returns. It need not call
// begin if ctx has ended, or its process. done may be called during begin, from any goroutine and more than once. In
// the simulation, other events run in the meantime.
type Await func(ctx context.Context, begin func(done func())) error

// AwaitChannel is the Await of production. Its goroutine blocks.
func AwaitChannel(ctx context.Context, begin func(done func())) error {
	done := make(chan struct{}, 1)
	begin(func() {
		select {
		case done <- struct{}{}:
		default:
		}
	})
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Sleep waits for d, or until the context ends, whose error it returns.
func (a Await) Sleep(ctx context.Context, c Clock, d time.Duration) error {
	var timer Timer
	err := a(ctx, func(done func()) { timer = c.After(d, done) })
	if timer != nil {
		timer.Stop()
	}
	return err
}
