package admin

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"cqld/internal/env"
)

// bubbleClock is the clock of a bubble of package synctest.
type bubbleClock struct{}

func (bubbleClock) Now() time.Time                            { return time.Now() }
func (bubbleClock) Monotonic() time.Duration                  { return time.Since(time.Unix(0, 0)) }
func (bubbleClock) After(d time.Duration, f func()) env.Timer { return time.AfterFunc(d, f) }

// TestPaceBoundsTheRate reads pieces of different sizes, and compares the time with the one that the rate permits.
func TestPaceBoundsTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 1 << 20
		began := time.Now()
		p := pace{clock: bubbleClock{}, bytesPerSecond: rate, began: bubbleClock{}.Monotonic()}
		total := 0
		for i := range 1000 {
			if err := p.wait(t.Context(), 100+i*10); err != nil {
				t.Fatal(err)
			}
			total += 100 + i*10
		}
		least := time.Duration(float64(total-10_090) / rate * float64(time.Second))
		// The wait for the last piece would precede the next one, and less than 10 ms may be left.
		if took := time.Since(began); took < least-10*time.Millisecond || took > least+10*time.Millisecond {
			t.Errorf("%d bytes took %v, want %v", total, took, least)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := errors.Join(p.wait(ctx, 1<<30), p.wait(ctx, 1)); !errors.Is(err, context.Canceled) {
			t.Errorf("an interrupted wait: %v", err)
		}
		if took := time.Since(began); took > least+1100*time.Millisecond {
			t.Errorf("an interrupted wait took until %v", took)
		}
		p = pace{}
		if err := p.wait(t.Context(), 1<<40); err != nil {
			t.Error(err)
		}
	})
}
