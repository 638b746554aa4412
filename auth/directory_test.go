package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"
)

// model is a trivial directory: it recomputes everything by searching lists.
type model struct {
	roles      map[string]bool // superuser
	members    map[[2]string]bool
	grants     map[Grant]bool // with one permission each
	identities map[string]string
	accounts   map[string]TablesAccount
}

func newModel() *model {
	return &model{map[string]bool{}, map[[2]string]bool{}, map[Grant]bool{}, map[string]string{},
		map[string]TablesAccount{}}
}

// memberOf reports whether two roles are equal, or the first is a direct or indirect member of the second.
func (m *model) memberOf(role, of string, depth int) bool {
	if role == of {
		return true
	}
	for pair := range m.members {
		if pair[1] == role && depth > 0 && m.memberOf(pair[0], of, depth-1) {
			return true
		}
	}
	return false
}

func (m *model) superuser(role string) bool {
	_, exists := m.roles[role]
	for of, super := range m.roles {
		if exists && super && m.memberOf(role, of, len(m.roles)) {
			return true
		}
	}
	return false
}

func (m *model) has(role string, p Permission, r Resource) bool {
	if m.superuser(role) {
		return true
	}
	for at, ok := r, true; ok; at, ok = at.Parent() {
		for g := range m.grants {
			if g.Resource == at && g.Permissions.Has(p) && m.memberOf(role, g.Role, len(m.roles)) {
				return true
			}
		}
	}
	return false
}

// apply makes a change that the directory has accepted.
func (m *model) apply(c Change) {
	switch c := c.(type) {
	case *CreateRole:
		m.roles[c.Name] = c.Settings.Superuser != nil && *c.Settings.Superuser
		m.created(c.Creator, RoleResource(c.Name))
		m.setTables(c.Name, c.Settings.Tables)
	case *AlterRole:
		m.setTables(c.Name, c.Settings.Tables)
		if c.Settings.Superuser != nil {
			m.roles[c.Name] = *c.Settings.Superuser
		}
	case *DropRole:
		delete(m.roles, c.Name)
		m.forget(func(g Grant) bool { return g.Role == c.Name || g.Resource == RoleResource(c.Name) })
		for pair := range m.members {
			if pair[0] == c.Name || pair[1] == c.Name {
				delete(m.members, pair)
			}
		}
		for id, role := range m.identities {
			if role == c.Name {
				delete(m.identities, id)
			}
		}
		for name, a := range m.accounts {
			if a.Role == c.Name {
				delete(m.accounts, name)
			}
		}
	case *GrantRole:
		m.members[[2]string{c.Role, c.Grantee}] = true
	case *RevokeRole:
		delete(m.members, [2]string{c.Role, c.Grantee})
	case *GrantPermissions:
		for _, p := range c.Permissions.List() {
			m.grants[Grant{c.Role, c.Resource, NewPermissionSet(p)}] = true
		}
	case *RevokePermissions:
		for _, p := range c.Permissions.List() {
			delete(m.grants, Grant{c.Role, c.Resource, NewPermissionSet(p)})
		}
	case *ResourcesCreated:
		for _, r := range c.Resources {
			m.created(c.Creator, r)
		}
	case *ResourcesDropped:
		m.forget(func(g Grant) bool {
			for at, ok := g.Resource, true; ok; at, ok = at.Parent() {
				if slices.Contains(c.Resources, at) {
					return true
				}
			}
			return false
		})
	case *AddIdentity:
		m.identities[c.Identity] = c.Role
	case *DropIdentity:
		delete(m.identities, c.Identity)
	}
}

func (m *model) created(by string, r Resource) {
	if _, ok := m.roles[by]; ok {
		m.apply(&GrantPermissions{Role: by, Resource: r, Permissions: NewPermissionSet(r.Permissions()...)})
	}
}

func (m *model) forget(which func(Grant) bool) {
	for g := range m.grants {
		if which(g) {
			delete(m.grants, g)
		}
	}
}

func names() []string { return []string{"a", "b", "c", "d", "e"} }

func resources() []Resource {
	return []Resource{AllKeyspaces(), Keyspace("ks"), AllTables("ks"), Table("ks", "t"), Table("ks", "u"),
		Keyspace("other"), AllRoles(), RoleResource("a"),
		RoleResource("b"), KeyspaceFunctions("ks"), Function("ks", "f()")}
}

// randomChange returns a change that may be possible or not.
func randomChange(r *rand.Rand) Change {
	name := func() string { return names()[r.IntN(len(names()))] }
	on := resources()[r.IntN(len(resources()))]
	var set PermissionSet
	for _, p := range on.Permissions() {
		if r.IntN(3) == 0 {
			set |= NewPermissionSet(p)
		}
	}
	super := r.IntN(8) == 0
	switch r.IntN(13) {
	case 11, 12:
		return randomTables(r, name())
	case 0:
		return &CreateRole{Name: name(), Creator: name(), Settings: RoleSettings{Superuser: &super}}
	case 1:
		return &AlterRole{Name: name(), Settings: RoleSettings{Superuser: &super}}
	case 2:
		return &DropRole{Name: name()}
	case 3, 4:
		return &GrantRole{Role: name(), Grantee: name()}
	case 5:
		return &RevokeRole{Role: name(), Grantee: name()}
	case 6, 7:
		return &GrantPermissions{Role: name(), Resource: on, Permissions: set}
	case 8:
		return &RevokePermissions{Role: name(), Resource: on, Permissions: set}
	case 9:
		if r.IntN(2) == 0 {
			return &ResourcesCreated{Creator: name(), Resources: []Resource{on}}
		}
		return &ResourcesDropped{Resources: []Resource{on}}
	}
	if r.IntN(2) == 0 {
		return &AddIdentity{Identity: "id of " + name(), Role: name()}
	}
	return &DropIdentity{Identity: "id of " + name()}
}

// TestDirectoryBehavesAsModel applies random changes. After each of them, permissions, superuser status and identities
// equal the model's, the previous directory is unchanged, and encoding and decoding give an equal directory that
// behaves the same.
func TestDirectoryBehavesAsModel(t *testing.T) {
	accepted, levels := map[string]int{}, map[string]int{}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		d, m := NewDirectory(), newModel()
		for step := range 80 {
			c := randomChange(r)
			before := mustEncode(t, d)
			b, err := EncodeChange(c)
			if err != nil {
				t.Fatal(err)
			}
			if c, err = DecodeChange(b); err != nil {
				t.Fatal(err)
			}
			next, err := Apply(d, c)
			if !bytes.Equal(before, mustEncode(t, d)) {
				t.Fatalf("seed %d step %d: %+v changed the directory in place", seed, step, c)
			}
			var invalid *Invalid
			if err != nil && !errors.As(err, &invalid) {
				t.Fatalf("%+v: %v", c, err)
			}
			if err != nil {
				continue
			}
			accepted[fmt.Sprintf("%T", c)]++
			m.apply(c)
			if d = next; r.IntN(4) == 0 {
				if d, err = Decode(mustEncode(t, next)); err != nil {
					t.Fatal(err)
				}
			}
			for _, a := range m.accounts {
				levels[a.Consistency]++
			}
			compare(t, fmt.Sprintf("seed %d step %d after %s", seed, step, b), d, m)
		}
	}
	if len(accepted) < 11 || len(levels) != 3 {
		t.Errorf("only these changes were accepted: %v, with accounts at the levels %v", accepted, levels)
	}
}

func mustEncode(t *testing.T, d *Directory) []byte {
	t.Helper()
	b, err := Encode(d)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func compare(t *testing.T, at string, d *Directory, m *model) {
	t.Helper()
	for _, name := range names() {
		_, exists := m.roles[name]
		if _, ok := d.Role(name); ok != exists || d.IsSuperuser(name) != m.superuser(name) {
			t.Fatalf("%s: role %s exists %v, superuser %v", at, name, ok, d.IsSuperuser(name))
		}
		for _, of := range names() {
			if _, there := m.roles[of]; exists && there &&
				slices.Contains(d.RolesOf(name), of) != m.memberOf(name, of, len(m.roles)) {
				t.Fatalf("%s: roles of %s: %v", at, name, d.RolesOf(name))
			}
		}
		for _, r := range resources() {
			for _, p := range Permissions() {
				if got, want := d.Has(name, p, r), exists && m.has(name, p, r); got != want {
					t.Fatalf("%s: %s has %s on %s: %v, want %v", at, name, p, r, got, want)
				}
			}
		}
		want, levels := m.accounts["account"+name], []string{"", "QUORUM", "LOCAL_QUORUM"}
		if a, ok := d.TablesAccount("account" + name); ok != (want.Role != "") ||
			ok && (*a != want || !slices.Contains(levels, a.Consistency)) {
			t.Fatalf("%s: account %s: %+v, want %+v", at, name, a, want)
		}
		id := "id of " + name
		if role, ok := d.Identity(id); role != m.identities[id] || ok != (role != "") {
			t.Fatalf("%s: identity %s is %q, want %q", at, id, role, m.identities[id])
		}
	}
}

// TestAuthorizationDoesNotAllocate counts allocations only; BenchmarkAuthorize measures times.
func TestAuthorizationDoesNotAllocate(t *testing.T) {
	a, p := benchAuthorizer(t)
	needs := []Requirement{{Select, Table("ks", "t")}, {Modify, Table("ks", "t")}, {Select, Table("system", "local")}}
	n := testing.AllocsPerRun(100, func() {
		for _, need := range needs {
			if err := a.Authorize(context.Background(), p, need); err != nil {
				t.Error(err)
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// benchAuthorizer returns an authorizer with 1,000 roles, and one that has its permissions on a keyspace by another
// role.
func benchAuthorizer(t testing.TB) (Authorizer, Principal) {
	t.Helper()
	d := NewDirectory()
	must := func(c Change) {
		var err error
		if d, err = Apply(d, c); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 1000 {
		must(&CreateRole{Name: fmt.Sprintf("role%d", i)})
	}
	must(&GrantPermissions{Role: "role7", Resource: Keyspace("ks"), Permissions: NewPermissionSet(Select, Modify)})
	must(&GrantRole{Role: "role7", Grantee: "role8"})
	return CassandraAuthorizer{Directory: func() *Directory { return d }}, Principal{Name: "role8"}
}

func BenchmarkAuthorize(b *testing.B) {
	a, p := benchAuthorizer(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := a.Authorize(context.Background(), p, Requirement{Modify, Table("ks", "t")}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestSystemKeyspacesAreOutsideAllKeyspaces is a regression test for CVE-2025-23015 and CVE-2025-26467: permissions on
// ALL KEYSPACES must not include the tables that decide who may do what.
func TestSystemKeyspacesAreOutsideAllKeyspaces(t *testing.T) {
	d := NewDirectory()
	for _, c := range []Change{&CreateRole{Name: "a"}, &GrantPermissions{Role: "a", Resource: AllKeyspaces(),
		Permissions: NewPermissionSet(AllKeyspaces().Permissions()...)},
		&CreateRole{Name: "b"}, &GrantPermissions{Role: "b", Resource: Keyspace("system_auth"),
			Permissions: NewPermissionSet(Select)}} {
		var err error
		if d, err = Apply(d, c); err != nil {
			t.Fatal(err)
		}
	}
	a := CassandraAuthorizer{Directory: func() *Directory { return d }}
	may := func(role string, p Permission, r Resource) bool {
		return a.Authorize(t.Context(), Principal{Name: role}, Requirement{p, r}) == nil
	}
	for _, keyspace := range []string{"system", "system_schema", "system_auth", "system_distributed", "system_traces",
		"system_views", "system_virtual_schema"} {
		for _, p := range AllKeyspaces().Permissions() {
			for _, r := range []Resource{Keyspace(keyspace), AllTables(keyspace), Table(keyspace, "roles")} {
				readable := p == Select && r.Kind == KindTable &&
					(keyspace == "system_schema" || keyspace == "system_virtual_schema")
				if may("a", p, r) != readable {
					t.Errorf("%s on %s by ALL KEYSPACES: %v", p, r, !readable)
				}
			}
		}
	}
	if !may("a", Modify, Table("ks", "t")) || !may("b", Select, Table("system_auth", "roles")) ||
		may("b", Modify, Table("system_auth", "roles")) {
		t.Error("permissions on user keyspaces, or on a system keyspace itself, are wrong")
	}
	if may("", Select, Table("ks", "t")) || !may("", Select, Table("system", "local")) ||
		may("", Select, Table("system", "batches")) {
		t.Error("an anonymous client has other permissions")
	}
}

func TestCIDRGroups(t *testing.T) {
	d := NewDirectory()
	must := func(c Change) {
		t.Helper()
		var err error
		if d, err = Apply(d, c); err != nil {
			t.Fatal(err)
		}
	}
	must(&SetCIDRGroup{Name: "office", CIDRs: []netip.Prefix{netip.MustParsePrefix("192.0.2.7/24"),
		netip.MustParsePrefix("2001:db8::/32")}})
	must(&SetCIDRGroup{Name: "all", CIDRs: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}})
	must(&CreateRole{Name: "a", Settings: RoleSettings{CIDRs: &Access{Restricted: true, Names: []string{"office"}}}})
	for address, want := range map[string]string{"192.0.2.200": "[office]", "192.0.3.1": "[all]",
		"2001:db8::1": "[office]", "::ffff:192.0.2.1": "[office]", "2001:db9::1": "[]"} {
		if got := list(d.GroupsOf(netip.MustParseAddr(address))); got != want {
			t.Errorf("%s: %v, want %v", address, got, want)
		}
	}
	if _, err := Apply(d, &AlterRole{Name: "a", Settings: RoleSettings{CIDRs: &Access{Restricted: true,
		Names: []string{"nonesuch"}}}}); err == nil {
		t.Error("an unknown group is accepted")
	}
	must(&DropCIDRGroup{Name: "office"})
	again, err := Decode(mustEncode(t, d))
	if err != nil {
		t.Fatal(err)
	}
	if r, _ := again.Role("a"); !r.CIDRs.Restricted || !slices.Equal(r.CIDRs.Names, []string{"office"}) ||
		len(again.GroupsOf(netip.MustParseAddr("192.0.2.200"))) != 1 {
		t.Errorf("decoded: %+v", r)
	}
}

// FuzzDecode checks that decoders of directories and changes return errors instead of panicking, and that what they
// accept can be used.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"Format":1,"Roles":[{"Name":"a","MemberOf":["b"]},{"Name":"b"}],"Grants":[{"Role":"a","Resource":{"Kind":4,"Keyspace":"k","Name":"t"},"Permissions":2}]}`))
	f.Add([]byte(`{"CreateRole":{"Name":"a","Settings":{"Login":true}}}`))
	f.Add([]byte(`{"SetCIDRGroup":{"Name":"a","CIDRs":["1.2.3.4/8"]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := Decode(b)
		if err != nil {
			d = NewDirectory()
		}
		for _, name := range d.RoleNames() {
			d.Has(name, Select, Table("k", "t"))
		}
		if c, err := DecodeChange(b); err == nil {
			if next, err := Apply(d, c); err == nil {
				mustEncode(t, next)
			}
		}
	})
}

// TestOptionsAreReplacedByEmptyOnes checks that the log distinguishes options that a statement does not set from none.
func TestOptionsAreReplacedByEmptyOnes(t *testing.T) {
	for _, c := range []struct{ given, want map[string]string }{
		{nil, map[string]string{"a": "b"}},
		{map[string]string{}, nil},
		{map[string]string{"c": "d"}, map[string]string{"c": "d"}},
	} {
		d := NewDirectory()
		for _, change := range []Change{
			&CreateRole{Name: "ada", Settings: RoleSettings{Options: map[string]string{"a": "b"}}},
			&AlterRole{Name: "ada", Settings: RoleSettings{Options: c.given}},
		} {
			b, err := EncodeChange(change)
			if err != nil {
				t.Fatal(err)
			}
			if change, err = DecodeChange(b); err != nil {
				t.Fatal(err)
			}
			if d, err = Apply(d, change); err != nil {
				t.Fatal(err)
			}
		}
		if r, _ := d.Role("ada"); !reflect.DeepEqual(r.Options, c.want) {
			t.Errorf("options %#v replaced by %#v are %#v, want %#v", map[string]string{"a": "b"}, c.given, r.Options,
				c.want)
		}
	}
}
