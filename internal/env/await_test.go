package env

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestAwaitEnds waits for calls of done during begin, later and twice, and for the end of a context.
func TestAwaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, begin := range []func(done func()){
			func(done func()) { done() },
			func(done func()) { time.AfterFunc(time.Second, done) },
			func(done func()) { done(); done() },
		} {
			if err := AwaitChannel(t.Context(), begin); err != nil {
				t.Error(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := AwaitChannel(ctx, func(func()) {}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the end of the context: %v", err)
		}
	})
}
