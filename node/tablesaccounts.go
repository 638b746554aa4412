package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"cqld/auth"
	"cqld/node/access"
	"cqld/node/control"
)

// opTablesAccounts lists the accounts of the cluster and of this node's configuration, without keys.
func (n *Node) opTablesAccounts(_ context.Context, _ control.None, _ control.Report) (control.TablesAccounts, error) {
	out := control.TablesAccounts{Accounts: []control.TablesAccount{}}
	d := n.roles()
	for _, name := range d.TablesAccounts() {
		a, _ := d.TablesAccount(name)
		out.Accounts = append(out.Accounts, control.TablesAccount{Name: name, Role: a.Role, Key1: a.Keys[0] != "",
			Key2:        a.Keys[1] != "",
			Consistency: cmp.Or(a.Consistency, n.opts.TablesConsistency)})
	}
	for _, a := range n.opts.TablesAccounts {
		_, hidden := d.TablesAccount(a.Name)
		out.Accounts = append(out.Accounts, control.TablesAccount{Name: a.Name, Role: a.Role, Key1: true,
			Configured: true, Hidden: hidden,
			Consistency: cmp.Or(a.Consistency, n.opts.TablesConsistency)})
	}
	return out, nil
}

// opCreateTablesAccount creates an account with two new keys. The role must exist.
func (n *Node) opCreateTablesAccount(ctx context.Context, args control.TablesAccountArgs,
	_ control.Report) (control.TablesKeys, error) {
	keys := [2]string{access.NewTablesKey(), access.NewTablesKey()}
	err := n.changeTablesAccount(ctx, args.Role, auth.TablesSettings{Account: args.Name, New: true,
		Keys: [2]*string{&keys[0], &keys[1]}})
	return control.TablesKeys{Name: args.Name, Key1: keys[0], Key2: keys[1]}, err
}

// opRotateTablesKey replaces a key of an account, or removes it. The old one is refused by every live node from then
// on.
func (n *Node) opRotateTablesKey(ctx context.Context, args control.TablesAccountArgs,
	_ control.Report) (control.TablesKeys, error) {
	out := control.TablesKeys{Name: args.Name}
	if args.Key != 1 && args.Key != 2 {
		return out, &control.Error{Code: control.Invalid, Message: "the key must be 1 or 2"}
	}
	key := ""
	if !args.Remove {
		key = access.NewTablesKey()
	}
	settings := auth.TablesSettings{Account: args.Name, Exists: true}
	settings.Keys[args.Key-1] = &key
	if args.Key == 1 {
		out.Key1 = key
	} else {
		out.Key2 = key
	}
	return out, n.changeTablesAccount(ctx, "", settings)
}

// opSetTablesConsistency changes the consistency of an account's requests.
func (n *Node) opSetTablesConsistency(ctx context.Context, args control.TablesAccountArgs,
	_ control.Report) (control.None, error) {
	s := auth.TablesSettings{Account: args.Name, Exists: true, Consistency: &args.Consistency}
	return control.None{}, n.changeTablesAccount(ctx, "", s)
}

func (n *Node) opRemoveTablesAccount(ctx context.Context, args control.TablesAccountArgs,
	_ control.Report) (control.None, error) {
	return control.None{}, n.changeTablesAccount(ctx, "", auth.TablesSettings{Account: args.Name, Drop: true})
}

// changeTablesAccount changes an account of a role, or, if role is empty, of the one that it belongs to.
func (n *Node) changeTablesAccount(ctx context.Context, role string, s auth.TablesSettings) error {
	if role == "" {
		a, ok := n.roles().TablesAccount(s.Account)
		if !ok {
			return &control.Error{Code: control.Invalid,
				Message: fmt.Sprintf("Azure Tables account %s doesn't exist", s.Account)}
		}
		role = a.Role
	}
	err := n.cluster.ProposeRoles(ctx, &auth.AlterRole{Name: role, Settings: auth.RoleSettings{Tables: &s}})
	var invalid *auth.Invalid
	if errors.As(err, &invalid) {
		return &control.Error{Code: control.Invalid, Message: invalid.Msg}
	}
	return err
}
