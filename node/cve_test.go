package node

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
	n := &Node{hashing: newHashing()}
	n.hashing.running <- struct{}{} // one is hashed
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var waiting sync.WaitGroup
	results := make(chan error, hashesMax+hashesWaitingMax)
	for range cap(n.hashing.admitted) {
		waiting.Go(func() {
			_, err := n.hashPassword(ctx, "x")
			results <- err
		})
	}
	for len(n.hashing.admitted) < cap(n.hashing.admitted) {
		select {
		case err := <-results:
			t.Fatal(err)
		default:
		}
	}
	for range 1000 {
		var overloaded *coordinator.Overloaded
		if _, err := n.hashPassword(ctx, "x"); !errors.As(err, &overloaded) {
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
	<-n.hashing.running
	if hash, err := n.hashPassword(t.Context(), "x"); err != nil || !strings.HasPrefix(hash, "$2") {
		t.Errorf("afterwards: %q, %v", hash, err)
	}
	if len(n.hashing.admitted)+len(n.hashing.running) > 0 {
		t.Error("slots are lost")
	}
}

// Cassandra has the superuser cassandra with the password cassandra. A new cluster of cqld has no role that is not
// configured.
func TestDefaultSuperuserDoesNotExist(t *testing.T) {
	r := openSecure(t, 226, 1)
	for _, role := range []string{"cassandra", "admin", "root", ""} {
		for _, password := range []string{"cassandra", "admin", ""} {
			if _, err := r.logIn(0, 5, role, password); err == nil {
				t.Errorf("%q logs in with %q", role, password)
			}
		}
	}
	if names := r.nodes[0].roles().RoleNames(); len(names) != 1 || names[0] != "admin" {
		t.Errorf("roles %q", names)
	}
}
