package node

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"cqld/coordinator"
)

// Roles that repeat ALTER ROLE … WITH PASSWORD slowed Cassandra's nodes. One password is hashed at once, some wait, and
// further statements are OVERLOADED.
func TestCVE2026_32588_PasswordChangesAreBounded(t *testing.T) {
	n := &Node{hashing: newHashing()}
	n.hashing.running <- struct{}{} // one is hashed
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var waiting sync.WaitGroup
	results := make(chan error, hashesMax+hashesWaitingMax)
	for range cap(n.hashing.admitted) {
		waiting.Go(func() {
			_, err := n.hashPassword(ctx, "x")
			results <- err
		})
	}
	for len(n.hashing.admitted) < cap(n.hashing.admitted) {
		select {
		case err := <-results:
			t.Fatal(err)
		default:
		}
	}
	for range 1000 {
		var overloaded *coordinator.Overloaded
		if _, err := n.hashPassword(ctx, "x"); !errors.As(err, &overloaded) {
			t.Fatal(err)
		}
	}
	cancel()
	waiting.Wait()
	for range cap(results) {
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	<-n.hashing.running
	if hash, err := n.hashPassword(t.Context(), "x"); err != nil || !strings.HasPrefix(hash, "$2") {
		t.Errorf("afterwards: %q, %v", hash, err)
	}
	if len(n.hashing.admitted)+len(n.hashing.running) > 0 {
		t.Error("slots are lost")
	}
}

// Cassandra's archive_command of the audit log, set over JMX, executed commands as the user of the node.
func TestCVE2023_30601_ArchiveCommandIsRefused(t *testing.T) {
	for _, text := range []string{"archive_command: /bin/sh -c id", "archive_command: '%path'", "allow_nodetool_archive_command: true", "allow_nodetool_archive_command: maybe"} {
		o := DefaultOptions()
		if err := o.parse("c.yaml", []byte("audit_logging_options:\n  enabled: true\n  "+text)); err == nil || !strings.Contains(err.Error(), "settings never execute commands") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Cassandra has the superuser cassandra with the password cassandra. A new cluster of cqld has no role that is not configured.
func TestDefaultSuperuserDoesNotExist(t *testing.T) {
	r := openSecure(t, 226, 1)
	for _, role := range []string{"cassandra", "admin", "root", ""} {
		for _, password := range []string{"cassandra", "admin", ""} {
			if _, err := r.logIn(0, 5, role, password); err == nil {
				t.Errorf("%q logs in with %q", role, password)
			}
		}
	}
	if names := r.nodes[0].roles().RoleNames(); len(names) != 1 || names[0] != "admin" {
		t.Errorf("roles %q", names)
	}
}

// The key of the development account is public: it is served on loopback addresses only, whatever the name of the account.
func TestDevelopmentKeyIsServedOnLoopbackOnly(t *testing.T) {
	const key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
	for address, allowed := range map[string]bool{"127.0.0.1": true, "127.9.9.9": true, "::1": true, "192.0.2.7": false, "2001:db8::7": false} {
		for _, accounts := range []string{"", "tables_accounts: [ { name: devstoreaccount1, key: " + key + " } ]\n", "tables_accounts: [ { name: other, key: " + key + " } ]\n"} {
			o := DefaultOptions()
			if err := o.parse("c.yaml", []byte(accounts+"allow_insecure_listen_addresses: true\nrpc_address: '"+address+"'\n")); err != nil {
				t.Fatal(err)
			}
			if err := o.Validate(); (err == nil) != (allowed || accounts == "") {
				t.Errorf("%s, %q: %v", address, accounts, err)
			}
			if accounts == "" && o.development() != allowed {
				t.Errorf("%s: the development account is served: %v", address, !allowed)
			}
		}
	}
}

// The plane of operators is a socket of the user, or a port that requires a token and, unless it is on loopback, certificates of its clients.
func TestCVE2024_27137_ControlPortIsNotReachable(t *testing.T) {
	for text, allowed := range map[string]bool{"control_address: 127.0.0.1:7199": true, "control_address: '192.0.2.7:7199'": false, "control_address: '0.0.0.0:7199'": false,
		"control_address: '192.0.2.7:7199'\nallow_insecure_listen_addresses: true":                                                                                         false,
		"control_address: '192.0.2.7:7199'\ncontrol_encryption_options: { enabled: true, private_key: key.pem }":                                                           false,
		"control_address: '192.0.2.7:7199'\ncontrol_encryption_options: { enabled: true, private_key: key.pem, trusted_certificates: ca.pem, optional: true }":             false,
		"control_address: '192.0.2.7:7199'\ncontrol_encryption_options: { enabled: true, private_key: key.pem, trusted_certificates: ca.pem, require_client_auth: false }": false,
		"control_address: '192.0.2.7:7199'\ncontrol_encryption_options: { enabled: true, private_key: key.pem, trusted_certificates: ca.pem }":                             true,
	} {
		o := DefaultOptions()
		err := o.parse("c.yaml", []byte(text))
		if err == nil {
			err = o.Validate()
		}
		if (err == nil) != allowed {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// FuzzAuditOptions reads malformed audit_logging_options and, from the same text, lists of names. Options that are accepted are
// valid, or Validate says why not.
func FuzzAuditOptions(f *testing.F) {
	for _, s := range []string{"{enabled: true}", "{logger: [ {class_name: BinAuditLogger} ]}", "{included_users: 'a, b'}", "{excluded_keyspaces: [a, {b: c}]}",
		"{max_log_size: -1}", "{max_queue_weight: 99999999999999999999GiB}", "{roll_cycle: \"\\0\"}", "[]", "{audit_logs_dir: null}", "{? {a: b} : c}", "&a [*a]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var document yaml.Node
		if yaml.Unmarshal([]byte(text), &document) != nil || len(document.Content) == 0 {
			return
		}
		o := DefaultOptions()
		if err := setAuditLogging(&o, document.Content[0]); err == nil {
			if err := o.Audit.Validate(); err != nil && err.Error() == "" {
				t.Error("an error without a text")
			}
		}
	})
}
