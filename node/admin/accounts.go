package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"cqld/auth"
	"cqld/cluster"
	"cqld/node/access"
	"cqld/node/config"
	"cqld/node/control"
)

// Accounts manages the accounts of Azure Tables. Changes are made in the cluster's metadata, as settings of a role, so
// every node knows them. Requests are authenticated by package azuretables, from the same directory of roles. Nothing
// here reads a key from the metadata except to say whether it is set.
type Accounts struct {
	options *config.Options // of this node, for the accounts of its configuration
	access  *access.Access
	cluster *cluster.Cluster
}

// List lists the accounts of the cluster and of this node's configuration, without keys. An account of the
// configuration that the cluster also has is hidden: the cluster's account is served.
func (t *Accounts) List(_ context.Context, _ control.None, _ control.Report) (control.TablesAccounts, error) {
	// An empty list and not null, so that clients of the control protocol can rely on a list.
	out := control.TablesAccounts{Accounts: []control.TablesAccount{}}
	d := t.access.Roles()
	for _, name := range d.TablesAccounts() {
		// The name is in the list of the same directory, so the account exists.
		a, _ := d.TablesAccount(name)
		out.Accounts = append(out.Accounts, control.TablesAccount{Name: name, Role: a.Role, Key1: a.Keys[0] != "",
			Key2: a.Keys[1] != "",
			// An account without a consistency has the level of the queried node.
			Consistency: cmp.Or(a.Consistency, t.options.Tables.Consistency)})
	}
	for _, a := range t.options.Tables.Accounts {
		// The account of the directory takes precedence, so this one is not served.
		_, hidden := d.TablesAccount(a.Name)
		out.Accounts = append(out.Accounts, control.TablesAccount{Name: a.Name, Role: a.Role, Key1: true,
			Configured: true, Hidden: hidden,
			Consistency: cmp.Or(a.Consistency, t.options.Tables.Consistency)})
	}
	return out, nil
}

// Create creates an account with two new keys. The role must exist. The keys are returned once; List does not show
// them. After an error, the keys of the result must not be used. New refuses an account that exists, in the metadata
// log: two operators who create one name get one success.
func (t *Accounts) Create(ctx context.Context, args control.TablesAccountArgs,
	_ control.Report) (control.TablesKeys, error) {
	// The keys are made here and not in the metadata, where every node would make others.
	keys := [2]string{access.NewTablesKey(), access.NewTablesKey()}
	err := t.change(ctx, args.Role, auth.TablesSettings{Account: args.Name, New: true,
		Keys: [2]*string{&keys[0], &keys[1]}})
	return control.TablesKeys{Name: args.Name, Key1: keys[0], Key2: keys[1]}, err
}

// RotateKey replaces a key of an account, or removes it. The old one is refused by every live node from then on. The
// other key stays valid, so clients can be moved to it first. A rotation without an interruption: rotate key 2, give it
// to all clients, then rotate key 1.
func (t *Accounts) RotateKey(ctx context.Context, args control.TablesAccountArgs,
	_ control.Report) (control.TablesKeys, error) {
	out := control.TablesKeys{Name: args.Name}
	if args.Key != 1 && args.Key != 2 {
		return out, &control.Error{Code: control.Invalid, Message: "the key must be 1 or 2"}
	}
	// An empty key removes it.
	key := ""
	if !args.Remove {
		key = access.NewTablesKey()
	}
	settings := auth.TablesSettings{Account: args.Name, Exists: true}
	settings.Keys[args.Key-1] = &key
	// The result has only the new key.
	if args.Key == 1 {
		out.Key1 = key
	} else {
		out.Key2 = key
	}
	return out, t.change(ctx, "", settings)
}

// SetConsistency changes the consistency of an account's requests. An unknown level is refused with the message of
// package auth.
func (t *Accounts) SetConsistency(ctx context.Context, args control.TablesAccountArgs,
	_ control.Report) (control.None, error) {
	s := auth.TablesSettings{Account: args.Name, Exists: true, Consistency: &args.Consistency}
	return control.None{}, t.change(ctx, "", s)
}

// Remove removes an account. Its tables and its role stay. Requests that are already being executed end normally; the
// next signature of the account is refused.
func (t *Accounts) Remove(ctx context.Context, args control.TablesAccountArgs,
	_ control.Report) (control.None, error) {
	return control.None{}, t.change(ctx, "", auth.TablesSettings{Account: args.Name, Drop: true})
}

// change changes an account of a role, or, if role is empty, of the one that it belongs to. An account belongs to
// exactly one role, and its settings are a part of the role's.
func (t *Accounts) change(ctx context.Context, role string, s auth.TablesSettings) error {
	if role == "" {
		// The role is read from this node's metadata. If the account has just been moved, the change is refused.
		a, ok := t.access.Roles().TablesAccount(s.Account)
		if !ok {
			return &control.Error{Code: control.Invalid,
				Message: fmt.Sprintf("Azure Tables account %s doesn't exist", s.Account)}
		}
		role = a.Role
	}
	err := t.cluster.ProposeRoles(ctx, &auth.AlterRole{Name: role, Settings: auth.RoleSettings{Tables: &s}})
	var invalid *auth.Invalid
	// Only a refused change is the operator's mistake.
	if errors.As(err, &invalid) {
		return &control.Error{Code: control.Invalid, Message: invalid.Msg}
	}
	return err
}
