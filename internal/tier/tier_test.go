package tier

import "testing"

func TestTheShortTierSkipsLongTests(t *testing.T) {
	want := testing.Short() && !race
	ran := false
	t.Run("long", func(t *testing.T) {
		Long(t)
		ran = true
	})
	if ran == want {
		t.Errorf("a long test ran: %v, short tier: %v", ran, want)
	}
	if n := Draws(8, 2); (n == 2) != testing.Short() {
		t.Errorf("%d draws, -short: %v", n, testing.Short())
	}
}
