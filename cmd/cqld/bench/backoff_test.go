package bench

import (
	"testing"
	"time"
)

func TestWaitIsBetweenItsBounds(t *testing.T) {
	for _, c := range []struct {
		x              int
		chance         float64
		want           time.Duration
		base, min, max time.Duration
	}{
		{1, 0, 27 * time.Second, 30 * time.Second, 3 * time.Second, 90 * time.Second},   // 3 + 0.8·30·1
		{1, 1, 39 * time.Second, 30 * time.Second, 3 * time.Second, 90 * time.Second},   // 3 + 1.2·30·1
		{2, 0, 75 * time.Second, 30 * time.Second, 3 * time.Second, 90 * time.Second},   // 3 + 0.8·30·3
		{2, 0.5, 90 * time.Second, 30 * time.Second, 3 * time.Second, 90 * time.Second}, // 3 + 30·3 is 93
		{3, 0.5, 710 * time.Millisecond, 100 * time.Millisecond, 10 * time.Millisecond, time.Second},
		{2000, 0.5, 90 * time.Second, 30 * time.Second, 3 * time.Second, 90 * time.Second},
	} {
		b := backoff{base: c.base, min: c.min, max: c.max, rand: func() float64 { return c.chance }}
		if got := b.wait(c.x); got.Round(time.Microsecond) != c.want {
			t.Errorf("retry %d at chance %v: %v, want %v", c.x, c.chance, got, c.want)
		}
	}
}

func TestOnlyServerBusyIsRetried(t *testing.T) {
	for status, want := range map[int]bool{503: true, 500: true, 504: true, 200: false, 400: false, 401: false,
		409: false, 412: false, 429: false, 501: false, 505: false} {
		if again(status) != want {
			t.Errorf("status %d: %v", status, !want)
		}
	}
}
