//go:build integration

package integration

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"cqld/integration/process"
)

// TestRangesAreSplitMovedAndMerged changes single tokens of a ring under load: a split and a merge move no data, a move
// of two tokens streams their ranges. No request fails, every node has its rows, drivers that connect see the tokens,
// and the nodes start again although their number of tokens is not the configured one.
func TestRangesAreSplitMovedAndMerged(t *testing.T) {
	t.Parallel()
	ring := startRing(t, process.Options{Nodes: 4})
	fillRestarts(t, ring.Servers)
	w := startWorkload(t, strings.Split(ring.Addresses(), ","), "reassigned", 1)
	from, to := ring.Servers[1], ring.Servers[2]
	tokens := tokensOf(t, from)
	mustCtl(t, ring.Servers[0], "range", "split", "--", "12345")
	// These drivers ignore MOVED_NODE of a node that is up, so they see the tokens of the time when they connect.
	watchers, unwatch := watchRing(t, ring.Addresses())
	watchers.await(t, "4 65")
	if out, err := ctl(t, from, "range", "split", "--", "12345"); err == nil || !strings.Contains(out,
		"token 12345 is owned by node") {
		t.Errorf("a second split: %v, %s", err, out)
	}
	mustCtl(t, ring.Servers[0], "range", "move", "--to", hostOf(to), "--", tokens[0], tokens[1])
	for _, tok := range tokens[:2] {
		if slices.Contains(tokensOf(t, from), tok) || !slices.Contains(tokensOf(t, to), tok) {
			t.Errorf("token %s has not moved", tok)
		}
	}
	if out, err := ctl(t, from, "range", "move", "--to", hostOf(to), "--", tokens[0]); err == nil ||
		!strings.Contains(out, "owns token "+tokens[0]+" already") {
		t.Errorf("a second move: %v, %s", err, out)
	}
	mustCtl(t, ring.Servers[3], "range", "merge", "--", "12345")
	if out, err := ctl(t, from, "range", "merge", "--", "12345"); err == nil || !strings.Contains(out,
		"no node owns token 12345") {
		t.Errorf("a second merge: %v, %s", err, out)
	}
	waitRing(t, ring.Servers[0], 4)
	unwatch()
	watchers, unwatch = watchRing(t, ring.Addresses())
	watchers.await(t, "4 64")
	unwatch()
	w.stop()
	for _, o := range w.failures(func(outcome) bool { return false }) {
		t.Errorf("a request to %s failed: %v", o.address, o.err)
	}
	checkRestarts(t, ring.Servers, "after the moves")
	restart(t, ring, (*process.Server).Stop)
	checkRestarts(t, ring.Servers, "after the restart")
	w.readBack(t, from.Address)
	nothingToRepair(t, ring.Servers[0], "after the restart")
}

// tokensOf returns the tokens of a server.
func tokensOf(t *testing.T, s *process.Server) (tokens []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`Token +: (-?\d+)`).FindAllStringSubmatch(mustCtl(t, s, "info", "-T"), -1) {
		tokens = append(tokens, m[1])
	}
	return tokens
}

// hostOf returns the IP address of a server.
func hostOf(s *process.Server) string { return s.Address[:strings.LastIndexByte(s.Address, ':')] }
