package cputime

import (
	"testing"
	"time"
)

func TestStatIsParsed(t *testing.T) {
	busy, all, ok := parseStat([]byte("cpu  100 1 20 800 50 3 4 2 7 7\ncpu0 1 1 1 1 1 1 1 1 1 1\n"))
	if !ok || busy != 1300*time.Millisecond || all != 9800*time.Millisecond {
		t.Errorf("%v of %v, %v", busy, all, ok)
	}
	for _, bad := range []string{"", "cpu 1 2 3", "intr 1 2 3 4 5 6 7 8", "cpu a b c d e f g h"} {
		if _, _, ok := parseStat([]byte(bad)); ok {
			t.Errorf("%q was parsed", bad)
		}
	}
	if _, all, ok := machine(); !ok || all <= 0 {
		t.Errorf("the machine's processors have existed for %v, %v", all, ok)
	}
}
