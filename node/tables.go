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

// tablesServer returns an Azure Tables server and its listener, or nil if the node has none.
func (n *Node) tablesServer() (*azuretables.Server, net.Listener, error) {
	if n.opts.TablesPort == 0 {
		return nil, nil, nil
	}
	limits := odata.Limits{Properties: n.opts.TablesMaxProperties, EntityBytes: n.opts.TablesMaxEntityBytes,
		BatchOperations: n.opts.TablesMaxBatchOperations}
	store := entity.New(entity.Options{
		Executor: n.executors.tables, View: n.parts.View, Changer: tablesChanger{n}, Clock: n.clock, Rand: realRand{},
		Limits:   entity.Limits{Properties: limits.Properties, EntityBytes: limits.EntityBytes},
		Timeouts: entity.Timeouts{Read: n.opts.ReadTimeout, Write: n.opts.WriteTimeout, CAS: n.opts.CASTimeout},
	})
	record := recorder.New(n.audit)
	d, err := azuretables.New(azuretables.Options{
		Service: store, Accounts: n.opts.TablesAccounts, Directory: n.access.Roles, Development: n.opts.Development(),
		Admit: n.access.Restrictions().Access, Clock: n.clock, Rand: realRand{}, Logger: n.log, Guard: n.guard,
		Memory:      n.memory,
		Hosts:       n.opts.TablesHosts,
		TLS:         n.certificates.Server(tablesPolicy(&n.opts)),
		TLSOptional: n.opts.ClientEncryption.Optional,
		Limits: azuretables.Limits{ConnectionsMax: n.opts.TablesMaxConnections,
			ConnectionsPerAddressMax: n.opts.ClientLimits.TablesConnectionsPerAddress,
			IdleTimeout:              n.opts.ClientLimits.TablesIdleTimeout, Entity: limits,
			BodyBytesTotal: n.opts.Memory.Receiving()},
		Consistency:   n.opts.TablesConsistency,
		AccountTarget: n.opts.TablesAccountTarget, PartitionTarget: n.opts.TablesPartitionTarget,
		Answered: func(a azuretables.Answer) {
			n.answered.Answered(a)
			record.Tables(&a)
		},
	})
	if err != nil {
		return nil, nil, err
	}
	l, err := listenForClients(n.opts.Network, n.opts.Tables())
	if err != nil {
		return nil, nil, fmt.Errorf("node: listen for clients of Azure Tables (tables_port; 0 turns it off): %w", err)
	}
	return d, l, nil
}

// tablesChanger changes the schema for clients of Azure Tables.
type tablesChanger struct{ n *Node }

// ProposeSchemaFor implements entity.Changer. As in CQL, a role gets all permissions on what it creates.
func (c tablesChanger) ProposeSchemaFor(ctx context.Context, by auth.Principal, change schema.Change) error {
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
	p := o.ClientEncryption.Policy()
	p.ClientAuth = tlsconfig.ClientAuthNone
	return p
}

// tablesRefusal returns refuse with its error as an error of the Tables server.
func tablesRefusal(refuse func() error) func() error {
	return func() error {
		if err := refuse(); err != nil {
			return &azuretables.NotServing{Reason: err.Error()}
		}
		return nil
	}
}
