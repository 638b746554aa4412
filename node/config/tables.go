package config

import (
	"net/netip"
	"slices"

	"cqld/azuretables"
)

// TablesListener returns the address for clients of Azure Tables.
func (o *Options) TablesListener() netip.AddrPort {
	return netip.AddrPortFrom(o.Listen.RPCAddress, o.Tables.Port)
}

// validateTables refuses to serve other machines with the development account, whose key is public. Accounts of the
// cluster's metadata are checked when they are created. It reports every account that is wrong, not only the first one.
// The development account is devstoreaccount1, whose key is in Microsoft's documentation of Azurite.
func (o *Options) validateTables(bad func(name, format string, args ...any)) {
	// A closed port needs no accounts.
	if o.Tables.Port == 0 {
		return
	}
	// Both servers listen on the same address.
	if o.Tables.Port == o.Listen.NativePort {
		bad("tables_port", "%d is native_transport_port", o.Tables.Port)
	}
	// An empty consistency of an account means this one.
	if o.Tables.Consistency != azuretables.Quorum && o.Tables.Consistency != azuretables.LocalQuorum {
		bad("tables_consistency", "%q is neither QUORUM nor LOCAL_QUORUM", o.Tables.Consistency)
	}
	// If a name is listed twice, one of its keys has no effect.
	seen := map[string]bool{}
	// The errors name accounts and never keys, because they are logged.
	for _, a := range o.Tables.Accounts {
		if err := azuretables.CheckAccount(a); err != nil {
			bad("tables_accounts", "account %q: %v", a.Name, err)
		}
		if seen[a.Name] {
			bad("tables_accounts", "account %q is listed twice", a.Name)
		}
		seen[a.Name] = true
	}
	// A role with permissions is required if permissions are checked.
	for _, a := range o.Tables.Accounts {
		if o.Access.Authorizes() && a.Role == "" {
			bad("tables_accounts", "account %q has no role, so that %s would refuse all of its requests: add role "+
				"to it", a.Name, CassandraAuthorizer)
		}
	}
	// The key decides, because an account of any name may have it.
	known := func(a azuretables.Account) bool { return a.Key == azuretables.DevelopmentKey }
	if !o.Listen.RPCAddress.IsLoopback() && !o.DevelopmentMode && slices.ContainsFunc(o.Tables.Accounts, known) {
		bad("tables_accounts", "%s is not a loopback address, and the key of %s is known to everyone: who reaches "+
			"it could read "+
			"and change everything. Set tables_accounts to accounts with keys of your own (openssl rand -base64 "+
			"64), rpc_address to an "+
			"address in 127.0.0.0/8, or ::1, or tables_port to 0", o.Listen.RPCAddress, azuretables.DevelopmentAccount)
	}
	// Zero is the default of each, so only negative numbers are errors.
	for name, n := range map[string]int{"tables_partition_target": o.Tables.PartitionTarget,
		"tables_account_target":  o.Tables.AccountTarget,
		"tables_max_connections": o.Tables.MaxConnections, "tables_max_properties": o.Tables.MaxProperties,
		"tables_max_batch_operations": o.Tables.MaxBatchOperations, "tables_max_entity_size": o.Tables.MaxEntityBytes} {
		if n < 0 {
			bad(name, "must not be negative")
		}
	}
}

// Development reports whether the development account is served while there is no other: on loopback addresses only,
// and in development mode, and not if permissions are checked, because anybody can sign with its key. The account must
// not be reachable from other machines, unless the operator has chosen the development mode. Accounts of the cluster's
// metadata turn it off as well, which package azuretables decides at each request.
func (o *Options) Development() bool {
	return len(o.Tables.Accounts) == 0 && (o.Listen.RPCAddress.IsLoopback() || o.DevelopmentMode) &&
		!o.Access.Authorizes()
}
