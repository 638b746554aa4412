package main

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cqld/azuretables"
	"cqld/node/datadir"
	"cqld/tlsconfig/authority"
)

const (
	// securityDir is the subdirectory with the security files of a ring of `cqld local --secure`.
	securityDir = "security"
	// localCluster is the name of the cluster of `cqld local`.
	localCluster = "local"
	// localSuperuser is the first superuser of a ring of `cqld local --secure`.
	localSuperuser = "admin"
	// tablesKeyBytes is the size of a generated key of an Azure Tables account, as Azure makes them.
	tablesKeyBytes = 64
	// renewBefore is the remaining validity below which a start of the ring replaces a certificate.
	renewBefore = 30 * 24 * time.Hour
)

// security contains the files of a ring of `cqld local --secure`: certificates, the superuser's password and the key of
// the account for Azure Tables. They are created at the first start and kept.
type security struct {
	// dir is the directory security inside the data directory. Only its owner can read it.
	dir string
	// tablesKey is base64, as connection strings contain it.
	tablesKey string
}

func (s *security) file(name string) string { return filepath.Join(s.dir, name) }

func (s *security) ca() string { return s.file("ca.crt") }

func (s *security) cert(m member) string { return s.file(fmt.Sprintf("node%d.crt", m.index)) }

func (s *security) key(m member) string { return s.file(fmt.Sprintf("node%d.key", m.index)) }

func (s *security) password() string { return s.file("superuser-password") }

func (s *security) credentials() string { return s.file("credentials") }

func (s *security) cqlshrc() string { return s.file("cqlshrc") }

// isSecured reports whether a directory contains a ring of `cqld local --secure`.
func isSecured(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, securityDir, "ca.crt"))
	return err == nil
}

// prepareSecurity creates missing files, and replaces certificates that are missing, do not match or expire soon.
// Existing valid files are kept, except the settings for cqlsh, which contain the port. now is compared with the
// certificates' expiry.
func prepareSecurity(dir string, members []member, now time.Time) (*security, error) {
	s := &security{dir: filepath.Join(dir, securityDir)}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	// ca.crt is written last, so an interrupted first start is repeated completely.
	if !isSecured(dir) { // the certificate of the authority is written last
		if err := s.generate(now); err != nil {
			return nil, fmt.Errorf("set up security: %w", err)
		}
	}
	if err := s.loadTablesKey(); err != nil {
		return nil, err
	}
	ca, err := s.loadAuthority(now)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		// Running nodes are not affected: this happens before the start of the ring.
		if s.valid(ca, m, now) {
			continue
		}
		if err := s.issue(ca, m); err != nil {
			return nil, fmt.Errorf("certificate of node %d: %w", m.index, err)
		}
	}
	return s, writePrivate(s.cqlshrc(), []byte(s.cqlshSettings(members[0])))
}

// generate creates the superuser's password, which cqlsh reads from a credentials file, and the certificate authority.
// ca.crt is written last, because it marks the directory as complete.
func (s *security) generate(now time.Time) error {
	// At least 128 random bits, in letters and digits that need no quoting.
	password := rand.Text()
	if err := writePrivate(s.password(), []byte(password+"\n")); err != nil {
		return err
	}
	// cqlsh reads a section named after the authentication provider.
	if err := writePrivate(s.credentials(), fmt.Appendf(nil, "[plain_text_auth]\nusername = %s\npassword = %s\n",
		localSuperuser, password)); err != nil {
		return err
	}
	ca, err := authority.NewCluster(authority.Environment{Now: now}, localCluster, 0)
	if err != nil {
		return err
	}
	key, err := ca.KeyPEM()
	if err != nil {
		return err
	}
	// The authority's key stays with the ring, to issue certificates for more nodes and to renew expired ones.
	if err := writePrivate(s.file("ca.key"), key); err != nil {
		return err
	}
	return writePrivate(s.ca(), ca.CertificatePEM())
}

// loadTablesKey reads the key of the Azure Tables account, or generates it, because the key of the development account
// is public. generate does not create this file, so it is missing at the first start.
func (s *security) loadTablesKey() error {
	path := s.file("tables-key")
	b, err := os.ReadFile(path)
	if err == nil {
		s.tablesKey = strings.TrimSpace(string(b))
		return nil
	}
	// An unreadable file is not replaced, because clients already use the key.
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var key [tablesKeyBytes]byte
	_, _ = rand.Read(key[:]) // it cannot fail
	s.tablesKey = base64.StdEncoding.EncodeToString(key[:])
	return writePrivate(path, []byte(s.tablesKey+"\n"))
}

// loadAuthority reads the certificate authority that generate has made.
func (s *security) loadAuthority(now time.Time) (*authority.Authority, error) {
	cert, err := os.ReadFile(s.ca())
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(s.file("ca.key"))
	if err != nil {
		return nil, err
	}
	return authority.Load(authority.Environment{Now: now}, cert, key, "")
}

// valid reports whether a node's files contain a certificate of the authority for its address, with the matching key,
// that does not expire soon.
func (s *security) valid(ca *authority.Authority, m member, now time.Time) bool {
	pair, err := tls.LoadX509KeyPair(s.cert(m), s.key(m))
	if err != nil {
		return false
	}
	// The address is checked, because the ring may be started on a system with other loopback addresses.
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	return err == nil && ca.Issued(leaf) && leaf.VerifyHostname(m.address) == nil &&
		leaf.NotAfter.Sub(now) > renewBefore
}

// issue replaces the certificate and the key of a node, even if only one was invalid.
func (s *security) issue(ca *authority.Authority, m member) error {
	address, err := netip.ParseAddr(m.address)
	if err != nil {
		return err
	}
	// localhost is added for clients that use that name.
	pair, err := ca.Issue(authority.Node(localCluster, fmt.Sprintf("node%d", m.index), []string{"localhost"},
		[]netip.Addr{address}))
	if err != nil {
		return err
	}
	key, err := pair.KeyPEM()
	if err != nil {
		return err
	}
	// If only the key is replaced before a crash, valid finds the mismatch at the next start, and both are issued
	// again.
	return errors.Join(writePrivate(s.key(m), key), writePrivate(s.cert(m), pair.CertificatePEM()))
}

// options returns the options of a node that make it secure. The result is YAML that follows member.yaml: passwords by
// role, permissions, TLS for clients and between all nodes, and an Azure Tables account that acts with the permissions
// of the superuser.
func (s *security) options(m member) string {
	// Clients and nodes use the same certificate, because it has both usages.
	files := fmt.Sprintf("  certificate: %q\n  private_key: %q\n  trusted_certificates: %q\n", s.cert(m), s.key(m),
		s.ca())
	var b strings.Builder
	b.WriteString("authenticator: PasswordAuthenticator\nauthorizer: CassandraAuthorizer\n")
	b.WriteString("client_encryption_options:\n  enabled: true\n" + files)
	b.WriteString("server_encryption_options:\n  internode_encryption: all\n" + files)
	fmt.Fprintf(&b, "tables_accounts: [ { name: %s, key: %q, role: %s } ]\n", azuretables.DevelopmentAccount,
		s.tablesKey, localSuperuser)
	return b.String()
}

// flags returns flags of `cqld start` that set the superuser, which affects only a new cluster. After that, the user
// may delete the password file.
func (s *security) flags() []string {
	// Without the password file, the flags would make each start fail.
	if _, err := os.Stat(s.password()); err != nil {
		return nil
	}
	return []string{"--superuser", localSuperuser, "--superuser-password-file", s.password()}
}

// cqlshSettings returns the content of cqlsh's configuration file. The password itself is in the credentials file that
// it names.
func (s *security) cqlshSettings(m member) string {
	// Only paths may contain a percent sign.
	path := func(p string) string { return strings.ReplaceAll(p, "%", "%%") } // cqlsh interpolates values
	return fmt.Sprintf("; Written by `cqld local --secure`.\n[connection]\nhostname = %s\nport = %d\nssl = true\n\n"+
		"[ssl]\ncertfile = %s\nvalidate = true\n\n[authentication]\ncredentials = %s\n", m.address, m.port,
		path(s.ca()), path(s.credentials()))
}

// greet prints how clients connect. It names the file with the password; the connection string contains the key of the
// Azure Tables account.
func (s *security) greet(nodes []*localNode, points []string) {
	first := nodes[0].member
	fmt.Printf("\nConnect as superuser %s (its generated password is in %s):\n  cqlsh --cqlshrc %s\n", localSuperuser,
		s.password(), shellQuoted(s.cqlshrc()))
	fmt.Printf("\n  drivers: contact points %s, local data center %s,\n    TLS with the certificate authority %s\n",
		strings.Join(points, ", "),
		centers(nodes), s.ca())
	if first.tables == 0 {
		return
	}
	fmt.Printf("  Azure Tables: AZURE_STORAGE_CONNECTION_STRING=%q\n", connectionString("https", first, s.tablesKey))
	ca := shellQuoted(s.ca())
	fmt.Printf("    The SDKs find the certificate authority in a variable: REQUESTS_CA_BUNDLE=%s (Python),\n    "+
		"SSL_CERT_FILE=%s (Go), NODE_EXTRA_CA_CERTS=%s (Node.js)\n", ca, ca, ca)
}

// shellQuoted returns text as one word of a shell command. It is not quoted unless it contains special characters, so
// most paths look as the user wrote them.
func shellQuoted(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("/._-+,:@", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// writePrivate replaces a file that only this user can read, unless its content is unchanged.
func writePrivate(path string, content []byte) error {
	// An unchanged file keeps its modification time.
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	return datadir.WriteDurable(path, content)
}
