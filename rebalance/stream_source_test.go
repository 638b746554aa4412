package rebalance

import (
	"testing"
	"time"

	"cqld/internal/testclock"
	"cqld/ring"
)

// TestSentShowsRangesUnderWay sends two ranges: one ends with its only block, the other one's peer does not request its
// second block.
func TestSentShowsRangesUnderWay(t *testing.T) {
	clock := &testclock.Clock{}
	s := &Streams{o: StreamOptions{Clock: clock}}
	s.mu.out = map[Sending]*sending{}
	short, long := Sending{Peer: 2, Range: ring.FullRange()}, Sending{Peer: 3, Range: ring.FullRange()}
	s.record(short, streamReply{total: 9, block: make([]byte, 7)})
	s.record(long, streamReply{total: 100, next: []byte("k"), block: make([]byte, 60)})
	s.record(long, streamReply{next: []byte("l"), block: make([]byte, 30)})
	for _, c := range []struct {
		at    time.Duration
		shown map[Sending]Sent
	}{
		{0, map[Sending]Sent{short: {7, 9}, long: {90, 100}}},
		{endedShown, map[Sending]Sent{short: {7, 9}, long: {90, 100}}},
		{endedShown + 1, map[Sending]Sent{long: {90, 100}}},
		{sendingKept, map[Sending]Sent{long: {90, 100}}},
		{sendingKept + 1, map[Sending]Sent{}},
	} {
		clock.Advance(c.at - clock.Monotonic())
		got := s.Sent()
		if len(got) != len(c.shown) || got[short] != c.shown[short] || got[long] != c.shown[long] {
			t.Errorf("after %v: %v, want %v", c.at, got, c.shown)
		}
	}
}
