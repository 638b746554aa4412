package node

import (
	"testing"
)

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
	if names := r.nodes[0].access.Roles().RoleNames(); len(names) != 1 || names[0] != "admin" {
		t.Errorf("roles %q", names)
	}
}
