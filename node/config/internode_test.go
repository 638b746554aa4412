package config

import (
	"net/netip"
	"strings"
	"testing"

	"cqld/messaging/internodetls"
	"cqld/tlsconfig"
)

func TestServerEncryptionOptions(t *testing.T) {
	const files = "\n  private_key: key.pem\n  certificate: cert.pem\n  trusted_certificates: ca.pem"
	for _, x := range []struct {
		name, file string
		want       InternodeEncryption
		err        string
	}{
		{"all", "internode_encryption: all" + files, InternodeEncryption{Peers: internodetls.All}, ""},
		{"upper case", "internode_encryption: ALL" + files, InternodeEncryption{Peers: internodetls.All}, ""},
		{"optional", "internode_encryption: none\n  optional: true" + files,
			InternodeEncryption{Encryption: Encryption{Optional: true}, Peers: internodetls.None}, ""},
		{"dc", "internode_encryption: dc\n  require_client_auth: true\n  require_endpoint_verification: false" + files,
			InternodeEncryption{Peers: internodetls.Datacenter, AnyEndpoint: true}, ""},
		{"no legacy port", "internode_encryption: rack\n  legacy_ssl_storage_port_enabled: false\n  " +
			"require_endpoint_verification: true" + files,
			InternodeEncryption{Peers: internodetls.Rack}, ""},
		{"Cassandra's default", "internode_encryption: none\n  legacy_ssl_storage_port_enabled: false\n  " +
			"require_client_auth: false",
			InternodeEncryption{Peers: internodetls.None}, ""},
		{"PEM factory", "internode_encryption: all\n  ssl_context_factory:\n    class_name: " +
			"org.apache.cassandra.security.PEMBasedSslContextFactory\n" +
			"    parameters:\n      private_key: key.pem\n      trusted_certificates: ca.pem",
			InternodeEncryption{Peers: internodetls.All}, ""},

		{"unknown value", "internode_encryption: some" + files, InternodeEncryption{},
			`internode_encryption: "some" is not none, rack, dc or all`},
		{"unknown option", "internode_encription: all" + files, InternodeEncryption{},
			"did you mean internode_encryption?"},
		{"enabled", "enabled: true" + files, InternodeEncryption{},
			"enabled: has no effect between nodes; set internode_encryption"},
		{"legacy port", "internode_encryption: all\n  legacy_ssl_storage_port_enabled: true" + files,
			InternodeEncryption{}, "a separate port for TLS is not supported"},
		{"outbound", "internode_encryption: all\n  outbound_keystore: x" + files, InternodeEncryption{},
			"with the same certificate"},
		{"no client auth", "internode_encryption: all\n  require_client_auth: false" + files, InternodeEncryption{},
			"require_client_auth must be true"},
		{"optional client auth", "internode_encryption: all\n  require_client_auth: optional" + files,
			InternodeEncryption{}, "require_client_auth must be true"},
		{"no key", "internode_encryption: all\n  trusted_certificates: ca.pem", InternodeEncryption{},
			"TLS needs certificate and private_key"},
		{"no authorities", "internode_encryption: all\n  private_key: key.pem", InternodeEncryption{},
			"TLS needs trusted_certificates"},
	} {
		o := Default()
		err := o.parse("c.yaml", []byte("server_encryption_options:\n  "+x.file))
		if err == nil {
			err = o.Validate()
		}
		if (err == nil) != (x.err == "") || err != nil && !strings.Contains(err.Error(), x.err) {
			t.Errorf("%s: %v, want %q", x.name, err, x.err)
			continue
		}
		got := o.Encryption.Internode
		if x.err == "" && (got.Peers != x.want.Peers || got.Optional != x.want.Optional ||
			got.AnyEndpoint != x.want.AnyEndpoint) {
			t.Errorf("%s: got %+v", x.name, got)
		}
		if x.err == "" && got.Used() && (got.Files.PrivateKey != "key.pem" ||
			got.Files.TrustedCertificates != "ca.pem" || got.ClientAuth != tlsconfig.ClientAuthRequired) {
			t.Errorf("%s: files %+v, client authentication %d", x.name, got.Files, got.ClientAuth)
		}
	}
}

// A node whose addresses other machines can reach needs TLS between nodes and, for clients, authentication and TLS, or
// the option that accepts the risk, which is logged at each start.
func TestReachableAddressesRequireSecurity(t *testing.T) {
	encrypted := func(peers internodetls.Encryption, optional bool) InternodeEncryption {
		return InternodeEncryption{Peers: peers, Encryption: Encryption{Optional: optional,
			ClientAuth: tlsconfig.ClientAuthRequired,
			Files:      tlsconfig.Files{PrivateKey: "key.pem", TrustedCertificates: "ca.pem"}}}
	}
	clients := Encryption{Enabled: true, Files: tlsconfig.Files{PrivateKey: "key.pem"}}
	optional := clients
	optional.Optional = true
	const logIn, plainClients, plainNodes = "Set authenticator", "Set client_encryption_options",
		"Set server_encryption_options"
	for _, x := range []struct {
		name               string
		listen, rpc        string
		internode          InternodeEncryption
		clients            Encryption
		refused            []string // the messages of the errors
		warnings, insecure int      // with secure options, and with the override
	}{
		{name: "loopback", listen: "127.0.0.2", rpc: "127.0.0.2"},
		{name: "loopback of IPv6", listen: "::1", rpc: "::1"},
		{name: "nodes without TLS", listen: "192.0.2.7", rpc: "127.0.0.1", refused: []string{plainNodes}, insecure: 1},
		{name: "nodes with optional TLS", listen: "192.0.2.7", rpc: "127.0.0.1",
			internode: encrypted(internodetls.All, true), refused: []string{plainNodes}, insecure: 1},
		{name: "prepared nodes", listen: "192.0.2.7", rpc: "127.0.0.1", internode: encrypted(internodetls.None, true),
			refused: []string{plainNodes}, insecure: 1},
		{name: "nodes with TLS", listen: "192.0.2.7", rpc: "127.0.0.1", internode: encrypted(internodetls.All, false)},
		{name: "nodes with TLS between data centers", listen: "192.0.2.7", rpc: "127.0.0.1",
			internode: encrypted(internodetls.Datacenter, false), warnings: 1, insecure: 1},
		{name: "clients", listen: "127.0.0.1", rpc: "2001:db8::7", refused: []string{logIn, plainClients}, insecure: 2},
		{name: "clients with optional TLS", listen: "127.0.0.1", rpc: "192.0.2.7", clients: optional,
			refused: []string{logIn, plainClients}, insecure: 2},
		{name: "clients with TLS", listen: "127.0.0.1", rpc: "192.0.2.7", clients: clients, refused: []string{logIn},
			insecure: 1},
	} {
		o := Default()
		o.Tables.Port = 0
		o.Listen.Address, o.Listen.RPCAddress = netip.MustParseAddr(x.listen), netip.MustParseAddr(x.rpc)
		o.Encryption.Internode, o.Encryption.Clients = x.internode, x.clients
		err := o.Validate()
		if (err == nil) != (len(x.refused) == 0) {
			t.Errorf("%s: %v", x.name, err)
		}
		for _, want := range x.refused {
			if err != nil && !(strings.Contains(err.Error(), want) &&
				strings.Contains(err.Error(), "allow_insecure_listen_addresses: true")) {
				t.Errorf("%s: %v, want %q", x.name, err, want)
			}
		}
		if err == nil && len(o.Insecurities()) != x.warnings {
			t.Errorf("%s: warnings %q", x.name, o.Insecurities())
		}
		o.Listen.AllowInsecure = true
		if err := o.Validate(); err != nil || len(o.Insecurities()) != x.insecure {
			t.Errorf("%s, allowed: %v, warnings %q", x.name, err, o.Insecurities())
		}
	}
	o := Default()
	o.Listen.AllowInsecure = true
	for _, a := range []string{"0.0.0.0", "::"} {
		o.Listen.Address = netip.MustParseAddr(a)
		if err := o.Validate(); err == nil {
			t.Errorf("%s was accepted", a)
		}
	}
}
