package config

import (
	"errors"
	"net/netip"

	"go.yaml.in/yaml/v3"
)

// givesUp is what a node in development mode gives up, for its log.
const givesUp = "development mode: all clients that reach the ports read and change everything, without login and " +
	"without encryption, " +
	"in CQL and as the development account of Azure Tables, whose key is public; do not use it for data that matters"

// developmentSettings returns the options of the development mode and of listening on all addresses. ApplyDevelopment
// sets broadcast_rpc_address if the configuration does not. An address that is not set stays invalid. The mode exists
// for containers of developers: `docker run -p 9042:9042 -e CQLD_DEVELOPMENT=true`.
func developmentSettings() map[string]setting {
	return map[string]setting{
		"development": truth(func(o *Options) *bool { return &o.DevelopmentMode }),
		"broadcast_rpc_address": func(o *Options, v *yaml.Node) error {
			// A stock file of Cassandra has the option without a value.
			if v.Tag == "!!null" {
				return nil
			}
			// Not a host name: drivers receive it from system.local as an address.
			a, err := ParseAddress(v.Value)
			// Clients cannot connect to 0.0.0.0 or ::.
			if err == nil && a.IsUnspecified() {
				err = errors.New("clients cannot connect to " + v.Value)
			}
			if err == nil {
				o.Listen.BroadcastRPCAddress = a
			}
			return err
		},
	}
}

// ApplyDevelopment completes the options of the development mode, after all of them are set: unless rpc_address is set,
// clients of all addresses are served, as a container needs it. Clients of the machine reach the node at 127.0.0.1,
// which the node advertises. Unless auto_snapshot is set, it is off. It does nothing unless the mode is set, and may be
// called more than once. Options that are set explicitly keep their values. It is separate from Validate, because flags
// and the environment may set the mode or an address after the file.
func (o *Options) ApplyDevelopment() {
	if !o.DevelopmentMode {
		return
	}
	// Data that do not matter are not worth a flush at each TRUNCATE.
	if !o.Snapshots.autoSet {
		o.Snapshots.Auto = false
	}
	// The default address serves this machine only; a container's clients come from outside it.
	if local := netip.AddrFrom4([4]byte{127, 0, 0, 1}); o.Listen.RPCAddress == local && !o.Listen.rpcSet {
		o.Listen.RPCAddress = netip.IPv4Unspecified()
	}
	// A client needs an address that it can reach, and the container's own is not known here.
	if o.Listen.RPCAddress.IsUnspecified() && !o.Listen.BroadcastRPCAddress.IsValid() {
		o.Listen.BroadcastRPCAddress = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
}

// validateAllAddresses checks rpc_address 0.0.0.0 or ::, which serves clients of all networks of the machine: only in
// development mode, or with logins and encryption. Cassandra, too, requires the address that clients connect to.
func (o *Options) validateAllAddresses(bad func(name, format string, args ...any)) {
	// The cases are in order: an address that is one network's needs no check here.
	switch {
	// A specific address is checked by validateInsecure.
	case !o.Listen.RPCAddress.IsUnspecified():
	case !o.DevelopmentMode && (!o.Access.Authenticates() || !o.Encryption.Clients.Enabled ||
		o.Encryption.Clients.Optional):
		bad("rpc_address", "%s serves clients of all networks: set authenticator: PasswordAuthenticator and "+
			"client_encryption_options with enabled: true, "+
			"or, for development only, development: true (CQLD_DEVELOPMENT=true)", o.Listen.RPCAddress)
	case !o.Listen.BroadcastRPCAddress.IsValid():
		bad("broadcast_rpc_address", "must be the address that clients connect to, because rpc_address is %s",
			o.Listen.RPCAddress)
	}
}
