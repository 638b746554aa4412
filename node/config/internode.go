package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"cqld/messaging/internodetls"
	"cqld/tlsconfig"
)

// InternodeEncryption is how nodes use TLS with each other: server_encryption_options. The embedded Encryption has the
// files and the client authentication; Peers decides what is encrypted. The peer's place decides: with rack or dc,
// connections within the same rack or data center are not encrypted. All nodes must agree, except during a change, for
// which Optional exists: first set optional on all nodes, then internode_encryption, then remove optional.
type InternodeEncryption struct {
	Encryption
	// Peers is internode_encryption.
	Peers internodetls.Encryption
	// AnyEndpoint accepts certificates of nodes at other addresses: require_endpoint_verification is false.
	AnyEndpoint bool
}

// Used reports whether the node has TLS with any other node. Enabled has no meaning here. A node that accepts
// encrypted connections and opens none has TLS as well.
func (e *InternodeEncryption) Used() bool { return e.encrypts() || e.Optional }

// encrypts reports whether this node encrypts any connections that it opens. An empty value means that it encrypts
// none.
func (e *InternodeEncryption) encrypts() bool { return e.Peers != "" && e.Peers != internodetls.None }

// required reports whether connections that must be encrypted cannot be opened without TLS. Optional accepts a peer
// that does not encrypt, for the time of a change.
func (e *InternodeEncryption) required() bool { return e.encrypts() && !e.Optional }

// String returns the state for operators: none, dc, all, "all, optional". It is part of log messages.
func (e *InternodeEncryption) String() string {
	if e.Optional {
		return string(e.peers()) + ", optional"
	}
	return string(e.peers())
}

// peers returns the option, or none if it is not set.
func (e *InternodeEncryption) peers() internodetls.Encryption {
	return cmp.Or(e.Peers, internodetls.None)
}

// validate reports what is missing or has no meaning between nodes. Cassandra permits require_client_auth: false, with
// which any process can act as a node over TLS; cqld does not.
func (e *InternodeEncryption) validate(bad func(name, format string, args ...any)) {
	// A node without encryption needs no files.
	if !e.Used() {
		return
	}
	const name = "server_encryption_options"
	if e.Files.PrivateKey == "" {
		bad(name, "TLS needs certificate and private_key; `cqld certs init` and `cqld certs node` make them")
	}
	if e.Files.TrustedCertificates == "" {
		bad(name, "TLS needs trusted_certificates, the authorities of the other nodes' certificates")
	}
	// Nodes authenticate each other by certificates, so neither side may omit one.
	if e.ClientAuth != tlsconfig.ClientAuthRequired {
		bad(name, "require_client_auth must be true: without, any process that reaches the port could act as a node")
	}
}

// setInternodeEncryption reads server_encryption_options. The default of require_client_auth is true here, and false
// for clients.
func setInternodeEncryption(o *Options, v *yaml.Node) error {
	e := InternodeEncryption{Encryption: Encryption{line: v.Line, ClientAuth: tlsconfig.ClientAuthRequired}}
	// A new map for each call, so the changes below do not reach clients' options.
	known := encryptionSettings()
	// The settings for connections between nodes extend the settings of a port.
	known["internode_encryption"] = func(_ *Encryption, v *yaml.Node) error { return e.setPeers(v) }
	known["require_endpoint_verification"] = func(_ *Encryption, v *yaml.Node) error {
		verify, err := truthOf(v)
		// After an error, e is discarded.
		e.AnyEndpoint = !verify
		return err
	}
	// Options of clients that mean nothing between nodes are refused, so that they do not look effective.
	refuse := func(format string, args ...any) encryptionSetting {
		return func(*Encryption, *yaml.Node) error { return fmt.Errorf(format, args...) }
	}
	known["enabled"] = refuse("has no effect between nodes; set internode_encryption")
	// The old name of the option and the new one are the same setting.
	legacyPort := func(_ *Encryption, v *yaml.Node) error {
		if enabled, err := truthOf(v); err != nil || !enabled {
			return err
		}
		return errors.New("a separate port for TLS is not supported; with optional: true, storage_port accepts " +
			"connections with and without TLS")
	}
	known["legacy_ssl_storage_port_enabled"], known["enable_legacy_ssl_storage_port"] = legacyPort, legacyPort
	// One certificate is used in both directions.
	for _, name := range []string{"outbound_keystore", "outbound_keystore_password"} {
		known[name] = refuse("is not supported: nodes accept and open connections with the same certificate")
	}
	if err := e.read(v, known); err != nil {
		return err
	}
	o.Encryption.Internode = e
	return nil
}

// setPeers reads internode_encryption. Names are not case-sensitive.
func (e *InternodeEncryption) setPeers(v *yaml.Node) error {
	switch p := internodetls.Encryption(strings.ToLower(v.Value)); p {
	case internodetls.None, internodetls.Rack, internodetls.Datacenter, internodetls.All:
		e.Peers = p
		return nil
	}
	return fmt.Errorf("%q is not none, rack, dc or all", v.Value)
}

// settings returns the options for system_views.settings. The option is shown as the node uses it.
func (e *InternodeEncryption) settings() map[string]string {
	const prefix = "server_encryption_options."
	return map[string]string{
		prefix + "internode_encryption":          string(e.peers()),
		prefix + "optional":                      strconv.FormatBool(e.Optional),
		prefix + "require_client_auth":           strconv.FormatBool(e.Used()),
		prefix + "require_endpoint_verification": strconv.FormatBool(!e.AnyEndpoint),
	}
}

// validateInsecure refuses addresses that other machines can reach without encryption and authentication, unless
// AllowInsecureAddresses is set. An address with TLS and logins may be reachable. A node that is started with the
// defaults listens on loopback addresses and passes.
func (o *Options) validateInsecure(bad func(name, format string, args ...any)) {
	// The operator has decided that the network is trusted.
	if o.Listen.AllowInsecure {
		return
	}
	const override = " To accept that in a network that you trust, set allow_insecure_listen_addresses: true"
	// rack and dc suffice here; Insecurities warns about the connections that they leave unencrypted.
	if a := o.Listen.Address; reachable(a) && !o.Encryption.Internode.required() {
		bad("listen_address", "%s is not a loopback address, and connections between nodes are not always encrypted "+
			"(internode_encryption: "+
			"%s): any process that reaches the port could act as a node. Set server_encryption_options with "+
			"internode_encryption: all, and "+
			"certificates that `cqld certs init` and `cqld certs node` make."+override, a, &o.Encryption.Internode)
	}
	// An unspecified address is checked by validateAllAddresses, and development mode has its own warning.
	if a := o.Listen.RPCAddress; reachable(a) && !a.IsUnspecified() && !o.DevelopmentMode {
		if !o.Access.Authenticates() {
			bad("rpc_address", "%s is not a loopback address, and clients do not log in: anyone who reaches the "+
				"port could read and change "+
				"everything. Set authenticator: PasswordAuthenticator."+override, a)
		}
		if !o.Encryption.Clients.Enabled || o.Encryption.Clients.Optional {
			bad("rpc_address", "%s is not a loopback address, and clients may connect without encryption: passwords "+
				"and rows could be read in the "+
				"network. Set client_encryption_options with enabled: true and without optional, and certificates "+
				"that `cqld certs init` and "+
				"`cqld certs node` make."+override, a)
		}
	}
}

// Insecurities returns what is insecure about the addresses of the node, to be logged at each start. They are warnings
// and not errors, because the operator may have allowed them. It does not depend on AllowInsecure. Each element is one
// line of the log, at the level of a warning.
func (o *Options) Insecurities() (all []string) {
	if a := o.Listen.Address; reachable(a) {
		// Only what is reachable from outside the machine can be insecure.
		switch e := &o.Encryption.Internode; {
		case !e.required():
			all = append(all, fmt.Sprintf("connections to and from other nodes may be unencrypted "+
				"(internode_encryption: %s), and listen_address %s is not a "+
				"loopback address: any process that reaches it can act as a node", e, a))
		// Encryption between data centers only leaves the others in the clear.
		case e.Peers != internodetls.All:
			all = append(all, fmt.Sprintf("internode_encryption is %s, so connections within the same %[1]s are "+
				"unencrypted: any process that reaches %s "+
				"from the address of such a node can act as that node", e.Peers, a))
		}
	}
	// The mode is a warning in itself.
	if a := o.Listen.RPCAddress; o.DevelopmentMode {
		all = append(all, givesUp)
	} else if reachable(a) {
		if !o.Access.Authenticates() {
			all = append(all, fmt.Sprintf("clients do not log in, and rpc_address %s is not a loopback address: "+
				"anyone who reaches it can read and change everything", a))
		}
		if !o.Encryption.Clients.Enabled || o.Encryption.Clients.Optional {
			all = append(all, fmt.Sprintf("clients may connect without encryption, and rpc_address %s is not a "+
				"loopback address", a))
		}
	}
	return all
}

// reachable reports whether other machines may be able to connect to an address. An address that is not set cannot be
// connected to. An unspecified one means every interface, and is not a loopback one.
func reachable(a netip.Addr) bool { return a.IsValid() && !a.Unmap().IsLoopback() }
