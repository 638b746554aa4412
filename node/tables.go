package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"cqld/auth"
	"cqld/azuretables"
	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
	"cqld/schema"
	"cqld/tlsconfig"
)

// Tables returns the address for clients of Azure Tables.
func (o *Options) Tables() netip.AddrPort {
	return netip.AddrPortFrom(o.RPCAddress, o.TablesPort)
}

// validateTables refuses to serve other machines with the development account, whose key is public.
func (o *Options) validateTables(bad func(name, format string, args ...any)) {
	if o.TablesPort == 0 {
		return
	}
	if o.TablesPort == o.NativeTransportPort {
		bad("tables_port", "%d is native_transport_port", o.TablesPort)
	}
	seen := map[string]bool{}
	for _, a := range o.TablesAccounts {
		if err := azuretables.CheckAccount(a); err != nil {
			bad("tables_accounts", "account %q: %v", a.Name, err)
		}
		if seen[a.Name] {
			bad("tables_accounts", "account %q is there twice", a.Name)
		}
		seen[a.Name] = true
	}
	for _, a := range o.TablesAccounts {
		if o.Access.authorizes() && a.Role == "" {
			bad("tables_accounts", "account %q has no role, so that %s would refuse all of its requests: add role to it", a.Name, cassandraAuthorizer)
		}
	}
	known := func(a azuretables.Account) bool { return a.Key == azuretables.DevelopmentKey }
	if !o.RPCAddress.IsLoopback() && slices.ContainsFunc(o.TablesAccounts, known) {
		bad("tables_accounts", "%s is not a loopback address, and the key of %s is known to everyone: who reaches it could read "+
			"and change everything. Set tables_accounts to accounts with keys of your own (openssl rand -base64 64), rpc_address to an "+
			"address in 127.0.0.0/8, or ::1, or tables_port to 0", o.RPCAddress, azuretables.DevelopmentAccount)
	}
	for name, n := range map[string]int{"tables_partition_target": o.TablesPartitionTarget, "tables_account_target": o.TablesAccountTarget,
		"tables_max_connections": o.TablesMaxConnections, "tables_max_properties": o.TablesMaxProperties,
		"tables_max_batch_operations": o.TablesMaxBatchOperations, "tables_max_entity_size": o.TablesMaxEntityBytes} {
		if n < 0 {
			bad(name, "must not be negative")
		}
	}
}

// development reports whether the development account is served while there is no other: on loopback addresses only, and
// not if permissions are checked, because anybody can sign with its key.
func (o *Options) development() bool {
	return len(o.TablesAccounts) == 0 && o.RPCAddress.IsLoopback() && !o.Access.authorizes()
}

// startTables opens the Azure Tables server. The caller holds n.binary.
func (n *Node) startTables() error {
	if n.opts.TablesPort == 0 {
		return nil
	}
	limits := odata.Limits{Properties: n.opts.TablesMaxProperties, EntityBytes: n.opts.TablesMaxEntityBytes,
		BatchOperations: n.opts.TablesMaxBatchOperations}
	store := entity.New(entity.Options{
		Executor: n.executors.tables, View: n.parts.View, Changer: tablesChanger{n}, Clock: n.clock, Rand: realRand{},
		Limits:   entity.Limits{Properties: limits.Properties, EntityBytes: limits.EntityBytes},
		Timeouts: entity.Timeouts{Read: n.opts.ReadTimeout, Write: n.opts.WriteTimeout, CAS: n.opts.CASTimeout},
	})
	d, err := azuretables.New(azuretables.Options{
		Service: store, Accounts: n.opts.TablesAccounts, Directory: n.roles, Development: n.opts.development(), Admit: n.restrictions().Access, Clock: n.clock, Rand: realRand{}, Logger: n.log, Guard: n.guard,
		Hosts:       n.opts.TablesHosts,
		TLS:         n.certificates.server(n.tablesPolicy()),
		TLSOptional: n.opts.ClientEncryption.optional(),
		Limits: azuretables.Limits{ConnectionsMax: n.opts.TablesMaxConnections, ConnectionsPerAddressMax: n.opts.ClientLimits.TablesConnectionsPerAddress,
			IdleTimeout: n.opts.ClientLimits.TablesIdleTimeout, Entity: limits},
		AccountTarget: n.opts.TablesAccountTarget, PartitionTarget: n.opts.TablesPartitionTarget, Answered: n.tablesAnswered,
	})
	if err != nil {
		return err
	}
	l, err := n.listenForClients(n.opts.Tables())
	if err != nil {
		return fmt.Errorf("node: listen for clients of Azure Tables (tables_port; 0 turns it off): %w", err)
	}
	n.tables.Store(d)
	n.running.Critical(n.fail, func() {
		if err := d.Serve(l); err != nil && !errors.Is(err, azuretables.ErrClosed) {
			n.fail(err)
		}
	})
	return nil
}

// tablesChanger changes the schema for clients of Azure Tables.
type tablesChanger struct{ n *Node }

// ProposeSchemaFor implements entity.Changer. As in CQL, a role gets all permissions on what it creates.
func (c tablesChanger) ProposeSchemaFor(ctx context.Context, by auth.Principal, change schema.Change) error {
	if !c.n.opts.Access.authorizes() {
		by = auth.Principal{}
	}
	return c.n.cluster.ProposeSchemaAs(ctx, change, by.Name)
}

// tablesPolicy returns the policy of TLS for clients of Azure Tables. They authenticate with keys of accounts, and their
// SDKs have no certificates.
func (n *Node) tablesPolicy() tlsconfig.Policy {
	p := n.opts.ClientEncryption.policy()
	p.ClientAuth = tlsconfig.ClientAuthNone
	return p
}

// tablesRefusal returns clockRefusal as an error of the Tables server.
func (n *Node) tablesRefusal() error {
	if err := n.clockRefusal(); err != nil {
		return &azuretables.NotServing{Reason: err.Error()}
	}
	return nil
}

// drainTables closes the Azure Tables server, if it is open.
func (n *Node) drainTables(ctx context.Context) error {
	d := n.tables.Swap(nil)
	if d == nil {
		return nil
	}
	return d.Drain(ctx)
}

// stopTables closes the Azure Tables server for an operator, who may start it again.
func (n *Node) stopTables(ctx context.Context) error {
	n.binary.Lock()
	defer n.binary.Unlock()
	ctx, cancel := context.WithTimeout(ctx, drainWait)
	defer cancel()
	return n.drainTables(ctx)
}
