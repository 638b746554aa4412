package access

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"cqld/coordinator"
)

// Roles that repeat ALTER ROLE … WITH PASSWORD slowed Cassandra's nodes. One password is hashed at once, some wait, and
// further statements are OVERLOADED.
func TestCVE2026_32588_PasswordChangesAreBounded(t *testing.T) {
	p := NewPasswords()
	p.running <- struct{}{} // one is hashed
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var waiting sync.WaitGroup
	results := make(chan error, hashesMax+hashesWaitingMax)
	for range cap(p.admitted) {
		waiting.Go(func() {
			_, err := p.Hash(ctx, "x")
			results <- err
		})
	}
	for len(p.admitted) < cap(p.admitted) {
		select {
		case err := <-results:
			t.Fatal(err)
		default:
		}
	}
	for range 1000 {
		var overloaded *coordinator.Overloaded
		if _, err := p.Hash(ctx, "x"); !errors.As(err, &overloaded) {
			t.Fatal(err)
		}
	}
	cancel()
	waiting.Wait()
	for range cap(results) {
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	<-p.running
	if hash, err := p.Hash(t.Context(), "x"); err != nil || !strings.HasPrefix(hash, "$2") {
		t.Errorf("afterwards: %q, %v", hash, err)
	}
	if len(p.admitted)+len(p.running) > 0 {
		t.Error("slots are lost")
	}
}
