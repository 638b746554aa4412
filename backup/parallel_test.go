package backup

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestParallelCallsAreBounded counts calls at a time, and fails one.
func TestParallelCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, now, most atomic.Int64
		call := func(ctx context.Context, _ int) error {
			calls.Add(1)
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			select {
			case <-time.After(time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		began := time.Now()
		if err := parallel(t.Context(), 3, 10, call); err != nil || calls.Load() != 10 || most.Load() != 3 ||
			time.Since(began) != 4*time.Second {
			t.Errorf("%v, %d calls, %d at a time, in %v", err, calls.Load(), most.Load(), time.Since(began))
		}
		failed := errors.New("failed")
		began = time.Now()
		err := parallel(t.Context(), 3, 1000, func(ctx context.Context, i int) error {
			if i == 5 {
				return failed
			}
			return call(ctx, i)
		})
		// The calls before the failure have ended; the running ones end at once.
		if !errors.Is(err, failed) || now.Load() != 0 || time.Since(began) != time.Second {
			t.Errorf("%v, %d calls run, after %v", err, now.Load(), time.Since(began))
		}
	})
}
