package contention

import (
	"testing"
	"time"
)

// FuzzTurns decodes arbitrary replies of an arbiter. A decoded reply survives another round trip.
func FuzzTurns(f *testing.F) {
	f.Add(appendTurn(nil, Turn{Ticket: 7, Alone: true, Kept: 250 * time.Millisecond}))
	f.Add(appendTurn(nil, Turn{}))
	f.Add(appendTurn(nil, Turn{Ticket: 1 << 60, Kept: time.Hour}))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decodeTurn(b)
		if err != nil {
			return
		}
		if got.Kept < 0 || got.Kept > turnTimeoutMax {
			t.Errorf("a turn of %v", got.Kept)
		}
		if again, err := decodeTurn(appendTurn(nil, got)); err != nil || again != got {
			t.Errorf("%+v: again %+v, %v", got, again, err)
		}
	})
}
