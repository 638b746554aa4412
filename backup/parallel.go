package backup

import (
	"context"
	"sync"
)

// parallel calls f with the numbers below n, in order, at most atOnce at a time. After the first error, which it
// returns, it begins no other call, and the contexts of the running ones end. One at a time run in the caller's
// goroutine.
func parallel(ctx context.Context, atOnce, n int, f func(ctx context.Context, i int) error) error {
	if atOnce == 1 {
		for i := range n {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			if err := f(ctx, i); err != nil {
				return err
			}
		}
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	numbers := make(chan int)
	var workers sync.WaitGroup
	for range min(atOnce, n) {
		workers.Go(func() {
			for i := range numbers {
				// Only the first cause is kept.
				if err := f(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		select {
		case numbers <- i:
		case <-ctx.Done():
		}
	}
	close(numbers)
	// The caller's variables belong to the calls until all have ended.
	workers.Wait()
	return context.Cause(ctx)
}

// atOnce returns how many of at most max requests the store may have in progress.
func (s *Store) atOnce(max int) int {
	if s.sequential {
		return 1
	}
	return max
}
