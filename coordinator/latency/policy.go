package latency

import (
	"strconv"
	"strings"
	"time"
)

// policy returns the time of the speculative request for sorted samples (µs).
//
// It is called again after every refreshAfter reads, with at most samplesKept samples.
type policy func(sorted []uint32) time.Duration

func isNever(s string) bool {
	u := strings.ToUpper(strings.TrimSpace(s))
	return u == "NEVER" || u == "NONE"
}

// parsePolicy parses '99p', '99percentile', '50ms', ALWAYS, NEVER, NONE, MIN(a,b), MAX(a,b). An invalid policy never
// speculates: options were validated when the table was created.
func parsePolicy(s string) (p policy, always, never bool) {
	u := strings.ToUpper(strings.TrimSpace(s))
	switch {
	case u == "ALWAYS":
		return nil, true, false
	case isNever(s):
		return nil, false, true
	}
	// At most one of the prefixes matches, so the order of the map does not matter.
	for name, pick := range map[string]func(a, b time.Duration) time.Duration{
		"MIN(": func(a, b time.Duration) time.Duration { return min(a, b) },
		"MAX(": func(a, b time.Duration) time.Duration { return max(a, b) },
	} {
		inner, ok := strings.CutPrefix(u, name)
		if !ok || !strings.HasSuffix(inner, ")") {
			continue
		}
		a, b, ok := strings.Cut(strings.TrimSuffix(inner, ")"), ",")
		if !ok {
			break
		}
		if pa, pb := parseSimple(a), parseSimple(b); pa != nil && pb != nil {
			return func(sorted []uint32) time.Duration { return pick(pa(sorted), pb(sorted)) }, false, false
		}
	}
	if p = parseSimple(u); p == nil {
		return nil, false, true
	}
	return p, false, false
}

// parseSimple parses '99P', '99PERCENTILE' or '50MS'; it returns nil for other text.
func parseSimple(s string) policy {
	s = strings.TrimSpace(s)
	// A fixed time needs no samples.
	if digits, ok := strings.CutSuffix(s, "MS"); ok {
		ms, err := strconv.ParseFloat(digits, 64)
		if err != nil || ms < 0 || ms > 1e9 {
			return nil
		}
		return func([]uint32) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
	}
	digits, ok := strings.CutSuffix(s, "PERCENTILE")
	if !ok {
		if digits, ok = strings.CutSuffix(s, "P"); !ok {
			return nil
		}
	}
	percent, err := strconv.ParseFloat(digits, 64)
	if err != nil || percent <= 0 || percent >= 100 {
		return nil
	}
	return func(sorted []uint32) time.Duration {
		if len(sorted) < refreshAfter {
			return afterFirst
		}
		// percent is less than 100, so the index is in range.
		return time.Duration(sorted[int(percent/100*float64(len(sorted)))]) * time.Microsecond
	}
}
