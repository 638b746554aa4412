package env

import (
	"context"
	"time"
)

// Await is a function that calls begin and then waits until done was called, or until ctx ends, whose error it
// returns. done may be called during begin, from any goroutine and more than once. The simulation has an Await in which
// other events run in the meantime.
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
	timer.Stop()
	return err
}
