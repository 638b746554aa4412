package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"cqld/auth"
	"cqld/node/access"
	"cqld/node/control"
)

func (n *Node) handleAccess() {
	s := n.control
	control.HandleLocal(s, control.ResetSuperuser, n.opResetSuperuser)
	control.Handle(s, control.UpdateCIDRGroup, n.opUpdateCIDRGroup)
	control.Handle(s, control.DropCIDRGroup, n.opDropCIDRGroup)
	control.Handle(s, control.ListCIDRGroups, n.opListCIDRGroups)
	control.Handle(s, control.CIDRGroupsOfIP, n.opCIDRGroupsOfIP)
}

// opResetSuperuser gives a superuser a new password. It creates the role if it does not exist. An operator who has lost
// all passwords uses it.
func (n *Node) opResetSuperuser(ctx context.Context, args control.SuperuserArgs, _ control.Report) (control.Superuser,
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
	hash, err := n.access.Passwords().Hash(ctx, password)
	if err != nil {
		return control.Superuser{}, err
	}
	if err := n.proposeRoles(ctx, &auth.ResetSuperuser{Name: args.Role, Hash: hash}); err != nil {
		return control.Superuser{}, err
	}
	n.log.Warn("an operator reset the password of a superuser", "role", args.Role)
	return out, nil
}

func (n *Node) opUpdateCIDRGroup(ctx context.Context, args control.CIDRGroup, _ control.Report) (control.None, error) {
	change := &auth.SetCIDRGroup{Name: args.Name}
	for _, text := range args.CIDRs {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return control.None{}, &control.Error{Code: control.Invalid, Message: text + " is not a valid CIDR String"}
		}
		change.CIDRs = append(change.CIDRs, p)
	}
	return control.None{}, n.proposeRoles(ctx, change)
}

func (n *Node) opDropCIDRGroup(ctx context.Context, args control.CIDRGroupArgs, _ control.Report) (control.None,
	error) {
	return control.None{}, n.proposeRoles(ctx, &auth.DropCIDRGroup{Name: args.Name})
}

func (n *Node) opListCIDRGroups(_ context.Context, args control.CIDRGroupArgs,
	_ control.Report) (out control.CIDRGroups, err error) {
	d := n.roles()
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

func (n *Node) opCIDRGroupsOfIP(_ context.Context, args control.IPArgs, _ control.Report) (out control.CIDRGroups,
	err error) {
	ip, err := netip.ParseAddr(args.IP)
	if err != nil {
		return out, &control.Error{Code: control.Invalid, Message: "Invalid IP " + args.IP}
	}
	d := n.roles()
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

// proposeRoles changes the directory of roles for an operator.
func (n *Node) proposeRoles(ctx context.Context, change auth.Change) error {
	err := n.cluster.ProposeRoles(ctx, change)
	var invalid *auth.Invalid
	if errors.As(err, &invalid) {
		return &control.Error{Code: control.Invalid, Message: invalid.Msg}
	}
	return err
}
