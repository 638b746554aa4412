package node

import (
	"context"
	"fmt"
	"net"

	"cqld/auth"
	"cqld/azuretables"
	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
	"cqld/node/config"
	"cqld/node/recorder"
	"cqld/schema"
	"cqld/tlsconfig"
)

// tablesServer returns an Azure Tables server and its listener, or nil if the node has none. It is called each time
// the server is opened.
func (n *Node) tablesServer() (*azuretables.Server, net.Listener, error) {
	if n.opts.Tables.Port == 0 {
		return nil, nil, nil
	}
	// One set of limits for the parser and the store; zero fields mean the limits of the service.
	limits := odata.Limits{Properties: n.opts.Tables.MaxProperties, EntityBytes: n.opts.Tables.MaxEntityBytes,
		BatchOperations: n.opts.Tables.MaxBatchOperations}
	// The store is made again with each opening of the server; it has no state except caches.
	store := entity.New(entity.Options{
		Executor: n.executors.tables, View: n.parts.View, Changer: tablesChanger{n}, Clock: n.clock, Rand: realRand{},
		Limits:   entity.Limits{Properties: limits.Properties, EntityBytes: limits.EntityBytes},
		Timeouts: entity.Timeouts{Read: n.opts.Timeouts.Read, Write: n.opts.Timeouts.Write, CAS: n.opts.Timeouts.CAS},
	})
	record := recorder.New(n.audit)
	d, err := azuretables.New(azuretables.Options{
		// An account of a role (Directory) precedes a configured one of the same name.
		Service: store, Accounts: n.opts.Tables.Accounts, Directory: n.access.Roles, Development: n.opts.Development(),
		Admit: n.access.Restrictions().Access, Clock: n.clock, Rand: realRand{}, Logger: n.log, Guard: n.guard,
		Memory:      n.memory,
		Hosts:       n.opts.Tables.Hosts,
		TLS:         n.certificates.Server(tablesPolicy(&n.opts)),
		TLSOptional: n.opts.Encryption.Clients.Optional,
		Limits: azuretables.Limits{ConnectionsMax: n.opts.Tables.MaxConnections,
			ConnectionsPerAddressMax: n.opts.ClientLimits.TablesConnectionsPerAddress,
			IdleTimeout:              n.opts.ClientLimits.TablesIdleTimeout, Entity: limits,
			BodyBytesTotal: n.opts.Memory.Division.Receiving()},
		Consistency:   n.opts.Tables.Consistency,
		AccountTarget: n.opts.Tables.AccountTarget, PartitionTarget: n.opts.Tables.PartitionTarget,
		// Every answered request is counted and, if enabled, recorded in the audit log.
		Answered: func(a azuretables.Answer) {
			n.answered.Answered(a)
			record.Tables(&a)
		},
	})
	if err != nil {
		return nil, nil, err
	}
	// The port is opened last, so that nothing must be closed after an error above.
	l, err := listenForClients(n.opts.Network, n.opts.TablesListener())
	if err != nil {
		return nil, nil, fmt.Errorf("node: listen for clients of Azure Tables (tables_port; 0 turns it off): %w", err)
	}
	return d, l, nil
}

// tablesChanger changes the schema for clients of Azure Tables. It implements entity.Changer, and is needed because the
// owner of a table is a role only with authorization enabled.
type tablesChanger struct{ n *Node }

// ProposeSchemaFor implements entity.Changer. As in CQL, a role gets all permissions on what it creates.
func (c tablesChanger) ProposeSchemaFor(ctx context.Context, by auth.Principal, change schema.Change) error {
	// Without authorization, no role is recorded as the owner of what is created.
	if !c.n.opts.Access.Authorizes() {
		by = auth.Principal{}
	}
	return c.n.cluster.ProposeSchemaAs(ctx, change, by.Name)
}

// AwaitSchema implements entity.Changer.
func (c tablesChanger) AwaitSchema(ctx context.Context) error { return c.n.cluster.AwaitSchema(ctx) }

// tablesPolicy returns the policy of TLS for clients of Azure Tables. They authenticate with keys of accounts, and
// their SDKs have no certificates.
func tablesPolicy(o *config.Options) tlsconfig.Policy {
	p := o.Encryption.Clients.Policy()
	p.ClientAuth = tlsconfig.ClientAuthNone
	return p
}

// tablesRefusal returns refuse with its error as an error of the Tables server. The reason is the same for both
// protocols. refuse returns nil if requests may be served; the result then is nil as well.
func tablesRefusal(refuse func() error) func() error {
	return func() error {
		if err := refuse(); err != nil {
			return &azuretables.NotServing{Reason: err.Error()}
		}
		return nil
	}
}
