package voters

import (
	"testing"

	"cqld/internal/invariant/invarianttest"
)

// TestInvariantsFire breaks the rules of a choice, each as a bug in distribute would.
func TestInvariantsFire(t *testing.T) {
	for name, c := range map[string]struct {
		ids   []uint64
		seats int
	}{
		"empty seat":   {[]uint64{1, 2}, 3},
		"even number":  {[]uint64{1, 2}, 2},
		"too many":     {[]uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 9},
		"two votes":    {[]uint64{1, 1, 2}, 3},
		"not in order": {[]uint64{2, 1, 3}, 3},
	} {
		t.Run(name, func(t *testing.T) { invarianttest.Fires(t, func() { checkChoice(c.ids, c.seats) }, "") })
	}
}
