package login

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"cqld/auth"
	"cqld/internal/testclock"
)

// directory returns a directory after changes.
func directory(t *testing.T, changes ...auth.Change) *auth.Directory {
	t.Helper()
	d := auth.NewDirectory()
	for _, c := range changes {
		next, err := auth.Apply(d, c)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		d = next
	}
	return d
}

func groupOf(name string, cidrs ...string) auth.Change {
	g := &auth.SetCIDRGroup{Name: name}
	for _, c := range cidrs {
		g.CIDRs = append(g.CIDRs, netip.MustParsePrefix(c))
	}
	return g
}

// restrictedRoles are the roles and CIDR groups with which Cassandra's answers in TestRestrictions were recorded, and
// some for IPv6.
func restrictedRoles(t *testing.T) *auth.Directory {
	yes := true
	role := func(name string, dcs, cidrs *auth.Access, super bool) auth.Change {
		s := auth.RoleSettings{Login: &yes, Datacenters: dcs, CIDRs: cidrs}
		if super {
			s.Superuser = &yes
		}
		return &auth.CreateRole{Name: name, Settings: s}
	}
	only := func(names ...string) *auth.Access { return &auth.Access{Restricted: true, Names: names} }
	return directory(t, groupOf("wide", "127.0.0.0/8", "10.0.0.0/8", "2001:db8::/32"),
		groupOf("narrow", "127.0.0.1/32"),
		groupOf("narrow2", "127.0.0.1/32", "2001:db8:1::/48"),
		role("everywhere", nil, nil, false), role("dc9", only("dc9"), nil, false),
		role("here", only("datacenter1"), nil, false),
		role("wide", nil, only("wide"), false), role("narrow2", nil, only("narrow2"), false),
		role("both", nil, only("wide", "narrow"), false),
		role("super", only("dc9"), only("wide"), true), role("member", only("dc9"), only("wide"), false),
		&auth.GrantRole{Role: "super", Grantee: "member"})
}

func TestRestrictions(t *testing.T) {
	d := restrictedRoles(t)
	r := &Restrictions{Directory: func() *auth.Directory { return d }, Network: true, Datacenter: "datacenter1",
		CIDR: true}
	const dc, ip = "You do not have access to this datacenter (datacenter1)", "You do not have access from this IP "
	for _, c := range []struct{ role, client, want string }{
		{"everywhere", "127.0.0.1", ""},
		{"everywhere", "192.168.0.1", ""},
		{"dc9", "127.0.0.1", dc},
		{"here", "127.0.0.1", ""},
		{"wide", "127.0.0.1", ip + "127.0.0.1"}, // the longest prefix is in other groups
		{"wide", "127.0.0.2", ""},
		{"wide", "10.9.9.9", ""},
		{"wide", "::ffff:10.9.9.9", ""},
		{"wide", "11.0.0.1", ip + "11.0.0.1"},
		{"wide", "2001:db8:2::1", ""},
		{"wide", "2001:db8:1::1", ip + "2001:db8:1::1"},
		{"narrow2", "127.0.0.1", ""},
		{"narrow2", "2001:db8:1::1", ""},
		{"narrow2", "127.0.0.2", ip + "127.0.0.2"},
		{"both", "127.0.0.1", ""},
		{"both", "127.0.0.2", ""},
		{"super", "127.0.0.1", ""},
		{"member", "127.0.0.1", ""},
		{"dropped", "127.0.0.1", dc},
	} {
		got := ""
		if err := r.Access(c.role, netip.MustParseAddr(c.client)); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s from %s: got %q, want %q", c.role, c.client, got, c.want)
		}
	}
	// The groups change.
	d = directory(t, groupOf("wide", "11.0.0.0/8"), &auth.CreateRole{Name: "wide",
		Settings: auth.RoleSettings{CIDRs: &auth.Access{Restricted: true, Names: []string{"wide"}}}})
	if err := r.Access("wide", netip.MustParseAddr("11.0.0.1")); err != nil {
		t.Error(err)
	}
	if err := r.Access("wide", netip.MustParseAddr("127.0.0.2")); err == nil {
		t.Error("the old groups are used")
	}
}

// A group of IPv4 ranges contains the same addresses in both forms, and may be written in both: a listener for both
// families receives IPv4 clients as ::ffff:a.b.c.d.
func TestGroupsContainMappedAddresses(t *testing.T) {
	for _, cidr := range []string{"10.1.0.0/16", "::ffff:10.1.0.0/112", "::ffff:10.1.2.3/112"} {
		d := directory(t, groupOf("g", cidr), &auth.CreateRole{Name: "r",
			Settings: auth.RoleSettings{CIDRs: &auth.Access{Restricted: true, Names: []string{"g"}}}})
		r := &Restrictions{Directory: func() *auth.Directory { return d }, CIDR: true}
		for client, inside := range map[string]bool{"10.1.2.3": true, "::ffff:10.1.2.3": true, "10.2.0.0": false,
			"::ffff:10.2.0.0": false, "::10.1.2.3": false} {
			a := netip.MustParseAddr(client)
			if got := r.Access("r", a) == nil; got != inside || (len(d.GroupsOf(a)) > 0) != inside {
				t.Errorf("%s in %s: %t, %v", client, cidr, got, d.GroupsOf(a))
			}
		}
	}
}

func TestRestrictionsOptions(t *testing.T) {
	var log bytes.Buffer
	clock := &testclock.Clock{}
	d := restrictedRoles(t)
	far := netip.MustParseAddr("11.0.0.1")
	r := &Restrictions{Directory: func() *auth.Directory { return d }, Datacenter: "datacenter1"}
	if err := r.Access("super", far); err != nil {
		t.Error(err)
	}
	if err := r.Access("dc9", far); err != nil {
		t.Error("without a network authorizer:", err)
	}
	r = &Restrictions{Directory: r.Directory, CIDR: true, Superusers: true}
	for _, role := range []string{"super", "member"} {
		if err := r.Access(role, far); err == nil {
			t.Errorf("superuser %s is not restricted", role)
		}
	}
	r = &Restrictions{Directory: r.Directory, CIDR: true, Monitor: true, Clock: clock,
		Logger: slog.New(slog.NewTextHandler(&log, nil))}
	for range 10 {
		if err := r.Access("wide", far); err != nil {
			t.Error(err)
		}
	}
	clock.Advance(time.Second)
	r.Access("wide", far)
	if n := strings.Count(log.String(), "outside the CIDR groups"); n != 2 {
		t.Errorf("%d messages:\n%s", n, log.String())
	}
}
