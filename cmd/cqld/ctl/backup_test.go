package ctl

import (
	"strings"
	"testing"
)

// TestMomentsHaveATimeZone parses moments in several forms.
func TestMomentsHaveATimeZone(t *testing.T) {
	for text, want := range map[string]int64{"2026-11-22T10:00:00Z": 1795341600000000,
		"2026-11-22T10:00:00.5Z": 1795341600500000, "2026-11-22T11:00:00+01:00": 1795341600000000,
		"2026-11-22T10:00:00.000001Z": 1795341600000001} {
		if got, err := parseMoment(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{"2026-11-22T10:00:00": "write 2026-11-22T10:00:00Z for UTC",
		"2026-11-22": "is not a moment", "yesterday": "is not a moment", "1700000000": "is not a moment",
		"0001-01-01T00:00:00Z": "is not a moment"} {
		if _, err := parseMoment(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
