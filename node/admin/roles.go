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

// Roles changes roles and groups of addresses for operators. It changes the metadata of the cluster, so every node
// knows the result.
type Roles struct {
	access  *access.Access
	cluster *cluster.Cluster
	log     *slog.Logger
}

// ResetSuperuser gives a superuser a new password. It creates the role if it does not exist. An operator who has lost
// all passwords uses it. A generated password is returned once, and only to the operator. Only the socket of the data
// directory accepts it (HandleLocal). No login protects it: who can open the socket can read the data directory as
// well.
func (r *Roles) ResetSuperuser(ctx context.Context, args control.SuperuserArgs, _ control.Report) (control.Superuser,
	error) {
	out := control.Superuser{Role: args.Role}
	if args.Role == "" {
		return out, &control.Error{Code: control.Invalid, Message: "the name of the role is missing"}
	}
	// A password that was given is not returned.
	password := args.Password
	if password == "" {
		password = access.GeneratePassword()
		out.Password = password
	}
	// Hashing takes long on purpose, so it may be interrupted.
	hash, err := r.access.Passwords().Hash(ctx, password)
	if err != nil {
		return control.Superuser{}, err
	}
	if err := r.propose(ctx, &auth.ResetSuperuser{Name: args.Role, Hash: hash}); err != nil {
		return control.Superuser{}, err
	}
	// The log has the role and never the password.
	r.log.Warn("an operator reset the password of a superuser", "role", args.Role)
	return out, nil
}

// UpdateCIDRGroup creates a group of addresses or replaces its ranges. The ranges are replaced together, so no request
// sees a mixture.
func (r *Roles) UpdateCIDRGroup(ctx context.Context, args control.CIDRGroup, _ control.Report) (control.None, error) {
	change := &auth.SetCIDRGroup{Name: args.Name}
	for _, text := range args.CIDRs {
		// The message is what nodetool prints.
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return control.None{}, &control.Error{Code: control.Invalid, Message: text + " is not a valid CIDR String"}
		}
		// A prefix without a length is an address, and is refused by ParsePrefix.
		change.CIDRs = append(change.CIDRs, p)
	}
	return control.None{}, r.propose(ctx, change)
}

// DropCIDRGroup removes a group of addresses. The change refuses a group that does not exist.
func (r *Roles) DropCIDRGroup(ctx context.Context, args control.CIDRGroupArgs, _ control.Report) (control.None,
	error) {
	return control.None{}, r.propose(ctx, &auth.DropCIDRGroup{Name: args.Name})
}

// ListCIDRGroups lists the groups of addresses, or one of them. All groups are listed if no name is given.
func (r *Roles) ListCIDRGroups(_ context.Context, args control.CIDRGroupArgs,
	_ control.Report) (out control.CIDRGroups, err error) {
	d := r.access.Roles()
	for _, name := range d.GroupNames() {
		if args.Name == "" || args.Name == name {
			out.Groups = append(out.Groups, shownGroup(d, name))
		}
	}
	// A name that does not exist is an error, because an operator has named it.
	if args.Name != "" && out.Groups == nil {
		return out, &control.Error{Code: control.Invalid,
			Message: fmt.Sprintf("CIDR group '%s' doesn't exist", args.Name)}
	}
	return out, nil
}

// CIDRGroupsOfIP lists the groups that contain an address. The list is empty if no group contains the address.
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

// shownGroup returns a group in the form of the control protocol.
func shownGroup(d *auth.Directory, name string) control.CIDRGroup {
	g := control.CIDRGroup{Name: name}
	ranges, _ := d.Group(name)
	for _, p := range ranges {
		g.CIDRs = append(g.CIDRs, p.String())
	}
	return g
}

// propose changes the directory of roles for an operator. A refused change is the operator's mistake; any other error
// is the cluster's.
func (r *Roles) propose(ctx context.Context, change auth.Change) error {
	err := r.cluster.ProposeRoles(ctx, change)
	var invalid *auth.Invalid
	if errors.As(err, &invalid) {
		return &control.Error{Code: control.Invalid, Message: invalid.Msg}
	}
	return err
}
