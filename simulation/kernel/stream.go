package kernel

import (
	"time"

	"cqld/internal/env"
)

// Stream is a random number generator (splitmix64). Each subsystem has its own, so that additional draws of one do not
// affect the others.
type Stream struct{ state uint64 }

var _ env.Rand = (*Stream)(nil)

// NewStream returns the stream with a name for a seed.
func NewStream(seed uint64, name string) *Stream {
	s := &Stream{state: fnv(fnvOffset, name) ^ seed*0x9e3779b97f4a7c15}
	// The first number is discarded.
	s.Uint64()
	return s
}

// Uint64 implements env.Rand.
func (s *Stream) Uint64() uint64 {
	s.state += 0x9e3779b97f4a7c15
	z := s.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Intn returns a number in [0, n).
func (s *Stream) Intn(n int) int { return int(s.Uint64() % uint64(n)) }

// Chance returns true with a probability of p in a thousand.
func (s *Stream) Chance(p int) bool { return s.Intn(1000) < p }

// Between returns a duration in [least, most).
func (s *Stream) Between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.Uint64()%uint64(most-least))
}
