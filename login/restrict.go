package login

import (
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"

	"cqld/auth"
	"cqld/internal/env"
	"cqld/query/invalid"
)

// Restrictions refuses roles by ACCESS TO DATACENTERS and ACCESS FROM CIDRS, as Cassandra's network and CIDR
// authorizers do. Its method Access implements Options.Access. It is safe for concurrent use; its fields must not be
// changed. The index of CIDR groups is rebuilt when the directory has changed; readers share it through an atomic
// pointer.
type Restrictions struct {
	Directory func() *auth.Directory // returns the current roles
	// Network enforces the data centers of roles. Datacenter is the data center of this node.
	Network    bool
	Datacenter string
	// CIDR enforces the CIDR groups of roles, for superusers only if Superusers is true. With Monitor, violations are
	// only logged.
	CIDR, Superusers, Monitor bool
	Clock                     env.Clock
	Logger                    *slog.Logger

	groups atomic.Pointer[groups] // index of the latest directory
	logged atomic.Int64           // when Monitor last logged, in seconds since 1970
}

// Access returns Cassandra's error of statements if the role has no access from the address or in this data center.
// Restrictions of granted roles are not inherited, but superuser status is. It needs a few map look-ups, and is
// called for each login and change of roles.
func (r *Restrictions) Access(role string, client netip.Addr) error {
	d := r.Directory()
	if r.Network && !d.MayAccess(role, r.Datacenter) {
		return &invalid.Unauthorized{Msg: "You do not have access to this datacenter (" + r.Datacenter + ")"}
	}
	if !r.CIDR || r.mayComeFrom(d, role, client) {
		return nil
	}
	if r.Monitor {
		if now := r.Clock.Now().Unix(); r.logged.Swap(now) != now {
			r.Logger.Warn("client address is outside the CIDR groups of the role", "role", escape(shorten(role)),
				"client", client.String())
		}
		return nil
	}
	return &invalid.Unauthorized{Msg: "You do not have access from this IP " + client.String()}
}

// mayComeFrom reports whether a role may connect from an address. A role that does not exist may not.
func (r *Restrictions) mayComeFrom(d *auth.Directory, role string, client netip.Addr) bool {
	stored, ok := d.Role(role)
	if !ok || !stored.CIDRs.Restricted || !r.Superusers && d.IsSuperuser(role) {
		return ok
	}
	of := r.groups.Load()
	if of == nil || of.directory != d {
		of = indexGroups(d)
		r.groups.Store(of)
	}
	return slices.ContainsFunc(of.of(client), func(group string) bool {
		return slices.Contains(stored.CIDRs.Names,
			group)
	})
}

// groups finds the CIDR groups of an address. lengths marks the prefix lengths that occur, from 0 to 128, so that
// others need no look-up.
type groups struct {
	directory *auth.Directory
	names     map[netip.Prefix][]string
	lengths   [129]bool // of prefixes
}

func indexGroups(d *auth.Directory) *groups {
	g := &groups{directory: d, names: map[netip.Prefix][]string{}}
	for _, name := range d.GroupNames() {
		prefixes, _ := d.Group(name)
		for _, p := range prefixes {
			p = p.Masked()
			g.names[p] = append(g.names[p], name)
			g.lengths[p.Bits()] = true
		}
	}
	return g
}

// of returns the groups that contain the longest prefix of the address. As in Cassandra, those with only shorter ones
// do not count.
func (g *groups) of(client netip.Addr) []string {
	client = client.Unmap().WithZone("")
	for bits := client.BitLen(); bits >= 0; bits-- {
		if !g.lengths[bits] {
			continue
		}
		if p, err := client.Prefix(bits); err == nil && g.names[p] != nil {
			return g.names[p]
		}
	}
	return nil
}
