//go:build integration

package integration

import (
	"math/big"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cqld/integration/process"
)

// reloaded is the time in which all nodes have read changed certificate files, and closed connections of revoked ones.
const reloaded = 7 * time.Second

// TestInternodeEncryptionIsEnabledUnderLoad changes a ring from no encryption to required encryption, then replaces all
// certificates, and revokes a previous one, while a driver that does not retry sends requests. No request may fail,
// except for rollingCrossed.
func TestInternodeEncryptionIsEnabledUnderLoad(t *testing.T) {
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	between := rollingBetween
	if testing.Short() {
		between = 500 * time.Millisecond
	}
	ring := startRing(t, process.Options{Nodes: 4})
	certificates, err := process.NewCertificates(filepath.Join(ring.Servers[0].Dir, "..", "certificates"))
	if err != nil {
		t.Fatal(err)
	}
	serials := map[*process.Server]*big.Int{}
	issue := func() {
		for _, s := range ring.Servers {
			if serials[s], err = certificates.Issue(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	issue()
	loads, end := startRolling(root, servers{ring.Addresses(), 4, 4}, "go-gocql")
	stalls := watchStalls(t)
	time.Sleep(between)
	for _, optional := range []bool{true, false} {
		for _, s := range ring.Servers {
			s.Stop()
			if err := s.Configure(certificates.Internode(s, "all", optional)...); err != nil {
				t.Fatal(err)
			}
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
			if err := ring.WaitAgreed(ringStart); err != nil {
				t.Fatal(err)
			}
			time.Sleep(between)
		}
	}
	const encrypted = "all; 3 of 3 connections from and 3 of 3 to other nodes are encrypted"
	for _, s := range ring.Servers {
		awaitInfo(t, s, "Internode encryption", encrypted)
	}
	// Connections with the previous certificate of a node end when it is revoked, and new ones use its new certificate.
	revoked := serials[ring.Servers[0]]
	issue()
	time.Sleep(reloaded)
	if err := certificates.Revoke(revoked); err != nil {
		t.Fatal(err)
	}
	time.Sleep(reloaded)
	for i, s := range ring.Servers {
		awaitInfo(t, s, "Internode encryption", encrypted)
		if log := s.Log(); i > 0 && !strings.Contains(log, "is revoked") {
			t.Errorf("%s closed no connection of a node with a revoked certificate:\n%s", s.Address, log)
		}
	}
	end()
	excused := rollingCrossed + stalls()
	for _, l := range loads {
		t.Run(l.name, func(t *testing.T) { l.judgeRolling(t, 500, &excused) })
	}
}

// awaitInfo waits until a line of "cqld ctl info" has a value.
func awaitInfo(t *testing.T, s *process.Server, name, want string) {
	t.Helper()
	got := ""
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for line := range strings.Lines(mustCtl(t, s, "info")) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
				got = strings.TrimSpace(value)
			}
		}
		if got == want {
			return
		}
	}
	t.Errorf("%s: %s is %q, want %q", s.Address, name, got, want)
}
