package typo

import (
	"slices"
	"testing"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"status", "statsu", 2}, {"local", "loacl", 2}, {"kitten", "sitting", 3},
		{"a", "a", 0}} {
		if got := Distance(c.a, c.b); got != c.want || got != Distance(c.b, c.a) {
			t.Errorf("%q, %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := slices.Values([]string{"seeds", "seed", "rack"})
	for word, want := range map[string]string{"sed": "seed", "seedss": "seeds", "rock": "rack", "unknown": ""} {
		if got := Nearest(word, names, 2); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
