package tier

import "testing"

func TestTiers(t *testing.T) {
	want := testing.Short() && !race
	ran := false
	t.Run("long", func(t *testing.T) {
		Long(t)
		ran = true
	})
	if ran == want {
		t.Errorf("a long test ran: %v, short tier: %v", ran, want)
	}
	ran = false
	t.Run("one goroutine", func(t *testing.T) {
		OneGoroutine(t)
		ran = true
	})
	if ran == race {
		t.Errorf("a test of one goroutine ran: %v, race detector: %v", ran, race)
	}
	if n := Draws(8, 2); (n == 2) != testing.Short() {
		t.Errorf("%d draws, -short: %v", n, testing.Short())
	}
}
