package ctl

import (
	"fmt"
	"io"

	"cqld/node/control"
)

// tablesAccountCommand changes accounts of the cluster; accounts of the configuration are only listed.
type tablesAccountCommand struct {
	Create      createAccountCommand      `cmd:"" help:"Create an account of a role, and print its keys, which are not shown again."`
	List        listAccountsCommand       `cmd:"" help:"List all accounts, without keys."`
	Show        showAccountCommand        `cmd:"" help:"Show an account, without keys."`
	Rotate      rotateKeyCommand          `cmd:"" help:"Replace a key, and print the new one. Every node refuses the old one from then on."`
	Consistency accountConsistencyCommand `cmd:"" help:"Set the consistency of an account's requests."`
	Remove      removeAccountCommand      `cmd:"" help:"Remove an account. Its tables remain."`
}

// createAccountCommand creates two keys, which are printed once.
type createAccountCommand struct {
	Name string `arg:"" help:"Name of the account: 3 to 24 lower-case letters and digits. Its tables are in the keyspace of this name."`
	Role string `required:"" help:"Role as which the account's requests run. It must exist, and have LOGIN."`
}

// Run creates an account.
func (c *createAccountCommand) Run(s *session) error {
	return ask(s, control.CreateTablesAccount, control.TablesAccountArgs{Name: c.Name, Role: c.Role}, showKeys)
}

// rotateKeyCommand replaces one of the two keys; the other one stays valid.
type rotateKeyCommand struct {
	Name   string `arg:"" help:"Name of the account."`
	Key    int    `required:"" enum:"1,2" help:"Which key: 1 or 2. Clients should use the other one."`
	Remove bool   `help:"Remove the key instead of replacing it."`
}

// Run replaces or removes a key. It prints the new key, which the node does not return again.
func (c *rotateKeyCommand) Run(s *session) error {
	return ask(s, control.RotateTablesKey, control.TablesAccountArgs{Name: c.Name, Key: c.Key, Remove: c.Remove},
		showKeys)
}

// showKeys prints the keys that the node returned: new ones only. They cannot be shown again.
func showKeys(w io.Writer, k control.TablesKeys) error {
	p := &printer{w: w}
	for i, key := range []string{k.Key1, k.Key2} {
		// A removed key is empty.
		if key != "" {
			p.line("key%d %s", i+1, key)
		}
	}
	return p.err
}

// accountConsistencyCommand sets the consistency in the metadata, so it applies to all nodes.
type accountConsistencyCommand struct {
	Name  string `arg:"" help:"Name of the account."`
	Level string `arg:"" enum:"QUORUM,LOCAL_QUORUM,default" help:"QUORUM, LOCAL_QUORUM, or default (option tables_consistency)."`
}

// Run changes the consistency of an account's requests.
func (c *accountConsistencyCommand) Run(s *session) error {
	args := control.TablesAccountArgs{Name: c.Name, Consistency: c.Level}
	// An empty level means the option tables_consistency of each node.
	if c.Level == "default" {
		args.Consistency = ""
	}
	return ask(s, control.SetTablesConsistency, args, quiet[control.None])
}

// removeAccountCommand removes the account and keeps its tables.
type removeAccountCommand struct {
	Name string `arg:"" help:"Name of the account."`
}

// Run removes an account.
func (c *removeAccountCommand) Run(s *session) error {
	return ask(s, control.RemoveTablesAccount, control.TablesAccountArgs{Name: c.Name}, quiet[control.None])
}

// listAccountsCommand lists the accounts of the cluster and of the node's configuration.
type listAccountsCommand struct{}

// Run prints all accounts.
func (c *listAccountsCommand) Run(s *session) error {
	return ask(s, control.TablesAccountsOf, control.None{}, showAccounts)
}

// showAccountCommand prints the entries of one name.
type showAccountCommand struct {
	Name string `arg:"" help:"Name of the account."`
}

// Run prints one account. The operation returns all accounts, so the name is looked up here.
func (c *showAccountCommand) Run(s *session) error {
	all, err := fetch(s, control.TablesAccountsOf, control.None{})
	if err != nil {
		return err
	}
	// A name may occur twice: in the cluster, and hidden in the configuration.
	var found control.TablesAccounts
	for _, a := range all.Accounts {
		if a.Name == c.Name {
			found.Accounts = append(found.Accounts, a)
		}
	}
	if len(found.Accounts) == 0 {
		return fmt.Errorf("there is no Azure Tables account %s", c.Name)
	}
	return show(s, found, showAccounts)
}

// showAccounts prints a line for each account. It prints no keys.
func showAccounts(w io.Writer, r control.TablesAccounts) error {
	p := &printer{w: w}
	// Account names have at most 24 characters.
	p.line("%-24s  %-4s  %-4s  %-13s  %-12s  %s", "Account", "Key1", "Key2", "Source", "Consistency", "Role")
	for _, a := range r.Accounts {
		source := "cluster"
		switch {
		// An account of the cluster has the same name and is served instead.
		case a.Hidden:
			source = "file (hidden)"
		case a.Configured:
			source = "file"
		}
		p.line("%-24s  %-4s  %-4s  %-13s  %-12s  %s", a.Name, yesNo(a.Key1), yesNo(a.Key2), source, a.Consistency,
			a.Role)
	}
	return p.err
}

// yesNo formats a boolean for a table. Lists never contain keys.
func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
