package config

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"cqld/tlsconfig"
)

func TestClientEncryptionOptions(t *testing.T) {
	const own = "\n  enabled: true\n  certificate: n.crt\n  private_key: n.key\n  trusted_certificates: ca.crt\n"
	files := tlsconfig.Files{Certificate: "n.crt", PrivateKey: "n.key", TrustedCertificates: "ca.crt"}
	for name, c := range map[string]struct {
		file string
		want Encryption
	}{
		"disabled": {"\n  enabled: false\n  keystore: conf/.keystore\n  truststore_password: x",
			Encryption{Files: tlsconfig.Files{PrivateKey: "conf/.keystore"}}},
		"files": {own, Encryption{Enabled: true, Files: files}},
		"both": {own + "  optional: true\n  require_client_auth: optional",
			Encryption{Enabled: true, Optional: true, ClientAuth: tlsconfig.ClientAuthOptional, Files: files}},
		"limits": {own + "  require_client_auth: true\n  protocol: TLSv1.3\n  max_certificate_validity_period: " +
			"365d\n  min_certificate_validity: 12h\n" +
			"  revocation_lists: [a.crl, b.crl]\n  algorithm: SunX509\n  store_type: PEM",
			Encryption{Enabled: true, ClientAuth: tlsconfig.ClientAuthRequired, MinVersion: tls.VersionTLS13,
				MaxVersion:  tls.VersionTLS13,
				MaxValidity: 365 * 24 * time.Hour, MinValidity: 12 * time.Hour,
				Files: tlsconfig.Files{Certificate: "n.crt", PrivateKey: "n.key",
					TrustedCertificates: "ca.crt", RevocationLists: []string{"a.crl", "b.crl"}}}},
		"protocols": {own + "  protocol: TLS\n  accepted_protocols: [TLSv1.2, TLSv1.3]\n  cipher_suites:\n  - " +
			"TLS_AES_128_GCM_SHA256\n" +
			"  - TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384\n",
			Encryption{Enabled: true, Files: files, MinVersion: tls.VersionTLS12,
				MaxVersion: tls.VersionTLS13, CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384}}},
		"PEM factory with files": {"\n  enabled: true\n  keystore: n.pem\n  keystore_password: secret\n  " +
			"truststore: ca.pem\n" +
			"  ssl_context_factory:\n    class_name: org.apache.cassandra.security.PEMBasedSslContextFactory",
			Encryption{Enabled: true, Files: tlsconfig.Files{PrivateKey: "n.pem", PrivateKeyPassword: "secret",
				TrustedCertificates: "ca.pem"}}},
		"PEM factory with text": {"\n  enabled: true\n  ssl_context_factory:\n    class_name: " +
			"PEMBasedSslContextFactory\n    parameters:\n" +
			"      private_key: |\n        -----BEGIN X-----\n      private_key_password: secret\n      " +
			"trusted_certificates: ca.pem\n",
			Encryption{Enabled: true, Files: tlsconfig.Files{PrivateKey: "-----BEGIN X-----\n",
				PrivateKeyPassword: "secret", TrustedCertificates: "ca.pem"}}},
	} {
		o := Default()
		if err := o.parse("c.yaml", []byte("client_encryption_options:"+c.file)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		o.Encryption.Clients.line = 0
		if !reflect.DeepEqual(o.Encryption.Clients, c.want) {
			t.Errorf("%s: %+v, want %+v", name, o.Encryption.Clients, c.want)
		}
		if err := o.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBadEncryptionOptionsSayWhatToDo(t *testing.T) {
	for file, want := range map[string]string{
		"client_encryption_options: true": "c.yaml:1: " +
			"client_encryption_options: expected options such as enabled",
		"client_encryption_options:\n  enable: true": "line 2: enable: unknown " +
			"option; did you mean enabled?",
		"client_encryption_options:\n  enabled: true\n  enabled: true": "line 3: enabled: already set",
		"client_encryption_options:\n  enabled: on":                    `enabled: "on" is neither true nor false`,
		"client_encryption_options:\n  require_client_auth: " +
			"maybe": `"maybe" is neither true, false nor optional`,
		"client_encryption_options:\n  store_type: JKS":                      `"JKS" is not supported; set certificate, private_key and trusted_certificates to PEM files`,
		"client_encryption_options:\n  protocol: TLSv1.1":                    `"TLSv1.1" is not supported; the protocols are TLSv1.2 and TLSv1.3`,
		"client_encryption_options:\n  accepted_protocols: [TLSv1.2, TLSv1]": `"TLSv1" is not supported`,
		"client_encryption_options:\n  cipher_suites: [TLS_RSA_WITH_AES_128_CBC_SHA]": "" +
			"TLS_RSA_WITH_AES_128_CBC_SHA is insecure and not supported",
		"client_encryption_options:\n  cipher_suites: [SSL_NULL]": `"SSL_NULL" is not supported; the cipher suites are ` +
			"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
		"client_encryption_options:\n  ssl_context_factory:\n    class_name: " +
			"org.example.F": `class_name "org.example.F" is not supported; it is ` +
			"org.apache.cassandra.security.PEMBasedSslContextFactory",
		"client_encryption_options:\n  ssl_context_factory:\n    class_name: PEMBasedSslContextFactory\n    " +
			"parameters:\n      keystore: x": "keystore: unknown option",
		"client_encryption_options:\n  max_certificate_validity_period: " +
			"365": `"365" is not a duration`,
		"native_transport_port_ssl: 9142": "a separate port for TLS is not supported; with " +
			"client_encryption_options enabled and optional, native_transport_port serves",
	} {
		o := Default()
		if err := o.parse("c.yaml", []byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", file, err, want)
		}
	}
	for file, want := range map[string]string{
		"client_encryption_options:\n  enabled: true": "client_encryption_options: TLS needs certificate and " +
			"private_key; `cqld certs init`",
		"client_encryption_options:\n  enabled: true\n  private_key: k\n  require_client_auth: " +
			"true": "require_client_auth needs trusted_certificates",
		"client_encryption_options:\n  enabled: true\n  private_key: k\n  trusted_certificates: c\n  " +
			"revocation_lists: l": "revocation_lists has no effect without require_client_auth",
		"control_encryption_options:\n  enabled: true\n  private_key: k\n  trusted_certificates: c\n  " +
			"require_client_auth: false": "require_client_auth must be true",
		"control_encryption_options:\n  optional: true\n  private_key: k\n  trusted_certificates: " +
			"c": "optional is not supported; set enabled",
		"control_address: 192.0.2.1:7199": "Set control_encryption_options, or from another machine use ssh -L",
	} {
		o := Default()
		if err := o.parse("c.yaml", []byte(file)); err != nil {
			t.Errorf("%q: %v", file, err)
		} else if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", file, err, want)
		}
	}
	o := Default()
	if err := o.parse("c.yaml", []byte("control_address: 192.0.2.1:7199\ncontrol_encryption_options:\n  enabled: "+
		"true\n  private_key: k\n  trusted_certificates: c\n")); err != nil {
		t.Error(err)
	} else if err := o.Validate(); err != nil {
		t.Errorf("a control address with TLS: %v", err)
	}
}

func TestSecretsInReadableFilesAreRefused(t *testing.T) {
	for text, what := range map[string]string{
		"client_encryption_options:\n  enabled: true\n  private_key: n.key\n  private_key_password: " +
			"secret\n": "a private key or its password",
		"tables_accounts: [ { name: races, key: cmFjZXMgcmFjZXMgcmFjZXMh } " +
			"]\n": "account keys",
	} {
		for mode, private := range map[os.FileMode]bool{0o644: false, 0o604: false, 0o660: false, 0o622: false,
			0o600: true, 0o400: true, 0o640: os.Getuid() == 0} {
			file := filepath.Join(t.TempDir(), "c.yaml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(file, mode); err != nil {
				t.Fatal(err)
			}
			o := Default()
			err := o.LoadFile(file)
			want := fmt.Sprintf("%s contains %s and has mode %04o, so other users may read or change it", file, what,
				mode)
			if private && err != nil || !private && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s, mode %04o: %v", what, mode, err)
			}
		}
	}
}
