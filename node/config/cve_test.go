package config

import (
	"strings"
	"testing"
)

// Cassandra's archive_command of the audit log, set over JMX, executed commands as the user of the node.
func TestCVE2023_30601_ArchiveCommandIsRefused(t *testing.T) {
	for _, text := range []string{"archive_command: /bin/sh -c id", "archive_command: '%path'",
		"allow_nodetool_archive_command: true", "allow_nodetool_archive_command: maybe"} {
		o := Default()
		if err := o.parse("c.yaml", []byte("audit_logging_options:\n  enabled: true\n  "+text)); err == nil ||
			!strings.Contains(err.Error(), "settings never execute commands") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The key of the development account is public: it is served on loopback addresses only, whatever the name of the
// account.
func TestDevelopmentKeyIsServedOnLoopbackOnly(t *testing.T) {
	const key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
	for address, allowed := range map[string]bool{"127.0.0.1": true, "127.9.9.9": true, "::1": true,
		"192.0.2.7": false, "2001:db8::7": false} {
		for _, accounts := range []string{"", "tables_accounts: [ { name: devstoreaccount1, key: " + key + " } ]\n",
			"tables_accounts: [ { name: other, key: " + key + " } ]\n"} {
			o := Default()
			if err := o.parse("c.yaml", []byte(accounts+"allow_insecure_listen_addresses: true\nrpc_address: "+
				"'"+address+"'\n")); err != nil {
				t.Fatal(err)
			}
			if err := o.Validate(); (err == nil) != (allowed || accounts == "") {
				t.Errorf("%s, %q: %v", address, accounts, err)
			}
			if accounts == "" && o.Development() != allowed {
				t.Errorf("%s: the development account is served: %v", address, !allowed)
			}
		}
	}
}

// The plane of operators is a socket of the user, or a port that requires a token and, unless it is on loopback,
// certificates of its clients.
func TestCVE2024_27137_ControlPortIsNotReachable(t *testing.T) {
	for text, allowed := range map[string]bool{"control_address: 127.0.0.1:7199": true,
		"control_address: '192.0.2.7:7199'": false, "control_address: '0.0.0.0:7199'": false,
		"control_address: '192.0.2.7:7199'\nallow_insecure_listen_addresses: " +
			"true": false,
		"control_address: '192.0.2.7:7199'\ncontrol_encryption_options: { enabled: true, private_key: key.pem " +
			"}": false,
		"control_address: '192.0.2.7:7199'\ncontrol_encryption_options: { enabled: true, private_key: key.pem, " +
			"trusted_certificates: ca.pem, optional: true }": false,
		"control_address: '192.0.2.7:7199'\ncontrol_encryption_options: { enabled: true, private_key: key.pem, " +
			"trusted_certificates: ca.pem, require_client_auth: false }": false,
		"control_address: '192.0.2.7:7199'\ncontrol_encryption_options: { enabled: true, private_key: key.pem, " +
			"trusted_certificates: ca.pem }": true,
	} {
		o := Default()
		err := o.parse("c.yaml", []byte(text))
		if err == nil {
			err = o.Validate()
		}
		if (err == nil) != allowed {
			t.Errorf("%s: %v", text, err)
		}
	}
}
