package latency

import (
	"testing"
	"time"
)

// TestPolicies parses every canonical form of the table option (package query/option).
func TestPolicies(t *testing.T) {
	samples := make([]uint32, 100) // 10 ms, 20 ms … 1 s
	for i := range samples {
		samples[i] = uint32(i+1) * 10_000
	}
	for _, x := range []struct {
		text string
		want time.Duration
	}{
		{"99p", time.Second},
		{"50p", 510 * time.Millisecond},
		{"99.5p", time.Second},
		{"50ms", 50 * time.Millisecond},
		{"MIN(99p,50ms)", 50 * time.Millisecond},
		{"MAX(99p,50ms)", time.Second},
	} {
		p, always, never := parsePolicy(x.text)
		if p == nil || always || never {
			t.Errorf("%s is not a policy", x.text)
			continue
		}
		if got := p(samples); got != x.want {
			t.Errorf("%s waits %v, want %v", x.text, got, x.want)
		}
	}
	if _, always, _ := parsePolicy("ALWAYS"); !always {
		t.Error("ALWAYS")
	}
	for _, text := range []string{"NEVER", "NONE", "nonsense", "MIN(1)", "101p", "-1ms"} {
		if _, _, never := parsePolicy(text); !never {
			t.Errorf("%s speculates", text)
		}
	}
	if p, _, _ := parsePolicy("99p"); p(samples[:10]) != afterFirst {
		t.Error("ten samples are no percentile")
	}
}

// TestSlowNodesAreTriedAgain checks the rise and decay of an average.
func TestSlowNodesAreTriedAgain(t *testing.T) {
	var p Peers
	if p.Of(1, 0) != 0 {
		t.Error("an unknown node was not tried")
	}
	for range 100 {
		p.Record(1, 80*time.Millisecond, time.Minute)
	}
	if got := p.Of(1, time.Minute); got < 70*time.Millisecond || got > 80*time.Millisecond {
		t.Errorf("average %v of 80ms", got)
	}
	if got := p.Of(1, time.Minute+5*halfLife); got > 3*time.Millisecond {
		t.Errorf("%v after five half-lives", got)
	}
	if got := p.Of(1, time.Hour); got != 0 {
		t.Errorf("%v after an hour", got)
	}
}
