package cql

import (
	"sync"
	"testing"
)

// TestParseIsConcurrent checks that goroutines, which share parsers and ANTLR's prediction caches, each get their own
// statement.
func TestParseIsConcurrent(t *testing.T) {
	texts := corpus(t)
	want := make([]string, len(texts))
	for i, text := range texts {
		if s, err := Parse(text); err == nil {
			want[i] = Format(s)
		} else {
			want[i] = err.Error()
		}
	}
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			for i := range texts {
				at := (i*7 + w) % len(texts)
				s, err := Parse(texts[at])
				got := ""
				if err == nil {
					got = Format(s)
				} else {
					got = err.Error()
				}
				if got != want[at] {
					t.Errorf("%s: got %s, want %s", texts[at], got, want[at])
				}
			}
		})
	}
	workers.Wait()
}
