package auth

import (
	"strings"
	"testing"
)

// everyResource returns one resource of each kind.
func everyResource() []Resource {
	return []Resource{AllKeyspaces(), Keyspace("ks"), AllTables("ks"), Table("ks", "t"), AllRoles(), RoleResource("r"),
		AllFunctions(),
		KeyspaceFunctions("ks"), Function("ks", "f(int, text)"), AllMBeans(), MBean("repair")}
}

func TestEveryKindHasAResource(t *testing.T) {
	kinds := map[Kind]bool{}
	for _, r := range everyResource() {
		kinds[r.Kind] = true
	}
	for k := Kind(1); k <= KindMBean; k++ {
		if !kinds[k] {
			t.Errorf("no resource of kind %d", k)
		}
	}
}

// TestParentsEndAtTheRoot checks the parents of each resource against the hierarchies of Cassandra's Resources.chain.
func TestParentsEndAtTheRoot(t *testing.T) {
	chains := map[Resource]string{
		AllKeyspaces():                 "<all keyspaces>",
		Keyspace("ks"):                 "<keyspace ks> <all keyspaces>",
		AllTables("ks"):                "<all tables in ks> <keyspace ks> <all keyspaces>",
		Table("ks", "t"):               "<table ks.t> <all tables in ks> <keyspace ks> <all keyspaces>",
		AllRoles():                     "<all roles>",
		RoleResource("r"):              "<role r> <all roles>",
		AllFunctions():                 "<all functions>",
		KeyspaceFunctions("ks"):        "<all functions in ks> <all functions>",
		Function("ks", "f(int, text)"): "<function ks.f(int, text)> <all functions in ks> <all functions>",
		AllMBeans():                    "<all mbeans>",
		MBean("repair"):                "<mbean repair> <all mbeans>",
	}
	for _, r := range everyResource() {
		chain := []string{r.String()}
		for at, ok := r.Parent(); ok; at, ok = at.Parent() {
			if chain = append(chain, at.String()); len(chain) > 4 {
				t.Fatalf("the parents of %s don't end: %v", r, chain)
			}
		}
		if got := strings.Join(chain, " "); got != chains[r] {
			t.Errorf("chain of %s: %s, want %s", r, got, chains[r])
		}
	}
	if _, ok := (Resource{}).Parent(); ok || (Resource{}).String() != "<no resource>" {
		t.Error("the zero resource has a parent or a name")
	}
}

func TestPermissionsHaveDifferentNames(t *testing.T) {
	names := map[string]bool{"?": true}
	for i, p := range Permissions() {
		if int(p) != i+1 || names[p.String()] {
			t.Errorf("permission %d is called %s", p, p)
		}
		names[p.String()] = true
	}
	if Permission(0).String() != "?" || (SelectMasked+1).String() != "?" {
		t.Error("an invalid permission has a name")
	}
}

func TestDeniedNamesPrincipalPermissionAndResource(t *testing.T) {
	need := Requirement{Modify, Table("ks", "t")}
	for _, c := range []struct {
		p    Principal
		want string
	}{
		{Principal{}, "User anonymous has no MODIFY permission on <table ks.t> or any of its parents"},
		{Principal{Name: "alice"}, "User alice has no MODIFY permission on <table ks.t> or any of its parents"},
	} {
		if got := (&Denied{c.p, need}).Error(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	if need.String() != "MODIFY on <table ks.t>" {
		t.Error(need)
	}
}

func TestAllowAllAllowsWithoutAllocation(t *testing.T) {
	var a Authorizer = AllowAll{}
	n := testing.AllocsPerRun(100, func() {
		for _, r := range []Resource{AllKeyspaces(), Table("ks", "t"), MBean("repair")} {
			if err := a.Authorize(t.Context(), Principal{Name: "alice"}, Requirement{Drop, r}); err != nil {
				t.Error(err)
			}
		}
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}
