package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	"cqld/auth"
	"cqld/cluster"
	"cqld/node/access"
	"cqld/node/control"
)

// Roles changes roles and groups of addresses for operators.
type Roles struct {
	access  *access.Access
	cluster *cluster.Cluster
	log     *slog.Logger
}

// ResetSuperuser gives a superuser a new password. It creates the role if it does not exist. An operator who has lost
// all passwords uses it.
func (r *Roles) ResetSuperuser(ctx context.Context, args control.SuperuserArgs, _ control.Report) (control.Superuser,
	error) {
	out := control.Superuser{Role: args.Role}
	if args.Role == "" {
		return out, &control.Error{Code: control.Invalid, Message: "the name of the role is missing"}
	}
	password := args.Password
	if password == "" {
		password = access.GeneratePassword()
		out.Password = password
	}
	hash, err := r.access.Passwords().Hash(ctx, password)
	if err != nil {
		return control.Superuser{}, err
	}
	if err := r.propose(ctx, &auth.ResetSuperuser{Name: args.Role, Hash: hash}); err != nil {
		return control.Superuser{}, err
	}
	r.log.Warn("an operator reset the password of a superuser", "role", args.Role)
	return out, nil
}

// UpdateCIDRGroup creates a group of addresses or replaces its ranges.
func (r *Roles) UpdateCIDRGroup(ctx context.Context, args control.CIDRGroup, _ control.Report) (control.None, error) {
	change := &auth.SetCIDRGroup{Name: args.Name}
	for _, text := range args.CIDRs {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return control.None{}, &control.Error{Code: control.Invalid, Message: text + " is not a valid CIDR String"}
		}
		change.CIDRs = append(change.CIDRs, p)
	}
	return control.None{}, r.propose(ctx, change)
}

// DropCIDRGroup removes a group of addresses.
func (r *Roles) DropCIDRGroup(ctx context.Context, args control.CIDRGroupArgs, _ control.Report) (control.None,
	error) {
	return control.None{}, r.propose(ctx, &auth.DropCIDRGroup{Name: args.Name})
}

// ListCIDRGroups lists the groups of addresses, or one of them.
func (r *Roles) ListCIDRGroups(_ context.Context, args control.CIDRGroupArgs,
	_ control.Report) (out control.CIDRGroups, err error) {
	d := r.access.Roles()
	for _, name := range d.GroupNames() {
		if args.Name == "" || args.Name == name {
			out.Groups = append(out.Groups, shownGroup(d, name))
		}
	}
	if args.Name != "" && out.Groups == nil {
		return out, &control.Error{Code: control.Invalid,
			Message: fmt.Sprintf("CIDR group '%s' doesn't exist", args.Name)}
	}
	return out, nil
}

// CIDRGroupsOfIP lists the groups that contain an address.
func (r *Roles) CIDRGroupsOfIP(_ context.Context, args control.IPArgs, _ control.Report) (out control.CIDRGroups,
	err error) {
	ip, err := netip.ParseAddr(args.IP)
	if err != nil {
		return out, &control.Error{Code: control.Invalid, Message: "Invalid IP " + args.IP}
	}
	d := r.access.Roles()
	for _, name := range d.GroupsOf(ip) {
		out.Groups = append(out.Groups, shownGroup(d, name))
	}
	return out, nil
}

func shownGroup(d *auth.Directory, name string) control.CIDRGroup {
	g := control.CIDRGroup{Name: name}
	ranges, _ := d.Group(name)
	for _, p := range ranges {
		g.CIDRs = append(g.CIDRs, p.String())
	}
	return g
}

// propose changes the directory of roles for an operator.
func (r *Roles) propose(ctx context.Context, change auth.Change) error {
	err := r.cluster.ProposeRoles(ctx, change)
	var invalid *auth.Invalid
	if errors.As(err, &invalid) {
		return &control.Error{Code: control.Invalid, Message: invalid.Msg}
	}
	return err
}
