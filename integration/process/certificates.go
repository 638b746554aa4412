package process

import (
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"cqld/tlsconfig/authority"
)

// Certificates are an authority and the certificates of the nodes of a ring, in a directory. Files are ca.pem, crl.pem
// and one PEM file for each server, with its certificate and key, named as its directory.
type Certificates struct {
	dir string
	ca  *authority.Authority
}

// NewCertificates makes an authority and an empty revocation list.
func NewCertificates(dir string) (*Certificates, error) {
	ca, err := authority.New(authority.Environment{}, "integration", 0)
	if err != nil {
		return nil, err
	}
	c := &Certificates{dir: dir, ca: ca}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	// Only the certificate: the key of the authority stays in memory.
	if err := c.write("ca.pem", ca.CertificatePEM()); err != nil {
		return nil, err
	}
	return c, c.Revoke()
}

// write replaces a file at once, like a tool that renews certificates. A node that reads the file meanwhile sees either
// version, never a part.
func (c *Certificates) write(name string, content []byte) error {
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Revoke replaces the revocation list. The list is complete each time: serials that are missing are valid again. It
// expires after an hour.
func (c *Certificates) Revoke(serials ...*big.Int) error {
	list, err := c.ca.Revoke(time.Hour, serials...)
	if err != nil {
		return err
	}
	return c.write("crl.pem", list)
}

// Issue makes a certificate with a key for the address of a server, or replaces them, and returns the serial number. A
// node reads the new files when an operator reloads certificates, or at its next start.
func (c *Certificates) Issue(s *Server) (*big.Int, error) {
	host, _, err := net.SplitHostPort(s.Address)
	if err != nil {
		return nil, err
	}
	// Nodes verify the address of the peer, so the certificate must contain it.
	address, err := netip.ParseAddr(host)
	if err != nil {
		return nil, err
	}
	pair, err := c.ca.Issue(authority.Node("integration", filepath.Base(s.Dir), nil, []netip.Addr{address}))
	if err != nil {
		return nil, err
	}
	key, err := pair.KeyPEM()
	if err != nil {
		return nil, err
	}
	return pair.Certificate.SerialNumber, c.write(filepath.Base(s.Dir)+".pem", append(pair.CertificatePEM(), key...))
}

// Internode returns the lines of a server's configuration for TLS between nodes. peers is internode_encryption: none,
// dc, rack or all. optional accepts connections without TLS as well, as during a migration.
func (c *Certificates) Internode(s *Server, peers string, optional bool) []string {
	file := func(name string) string { return filepath.Join(c.dir, name) }
	return []string{"server_encryption_options:", "  internode_encryption: " + peers,
		fmt.Sprintf("  optional: %t", optional),
		"  private_key: " + file(filepath.Base(s.Dir)+".pem"), "  trusted_certificates: " + file("ca.pem"),
		"  revocation_lists: [" + file("crl.pem") + "]"}
}

// EncryptInternode makes certificates for all servers of a ring that is not started yet, and requires TLS between them.
// It configures the files of the servers, so options that a test sets with Configure later replace these.
func (r *Ring) EncryptInternode(dir string) (*Certificates, error) {
	c, err := NewCertificates(dir)
	if err != nil {
		return nil, err
	}
	// Spare nodes too, so that they can join the encrypted ring later.
	for _, s := range append(r.Spare, r.Servers...) {
		if _, err := c.Issue(s); err != nil {
			return nil, err
		}
		if err := s.Configure(c.Internode(s, "all", false)...); err != nil {
			return nil, err
		}
	}
	return c, nil
}
