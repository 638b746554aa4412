//go:build integration

package integration

import (
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cqld/integration/process"
	"cqld/tlsconfig/authority"
)

// nodeCertificates makes the certificates of a ring's nodes in a directory.
type nodeCertificates struct {
	t   *testing.T
	dir string
	ca  *authority.Authority
}

func newNodeCertificates(t *testing.T, dir string) *nodeCertificates {
	t.Helper()
	c := &nodeCertificates{t: t, dir: dir}
	var err error
	if c.ca, err = authority.New(authority.Environment{}, "integration", 0); err != nil {
		t.Fatal(err)
	}
	c.write("ca.pem", c.ca.CertificatePEM())
	c.revoke()
	return c
}

// write replaces a file at once, like a tool that renews certificates.
func (c *nodeCertificates) write(name string, content []byte) {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		c.t.Fatal(err)
	}
}

// revoke writes the revocation list.
func (c *nodeCertificates) revoke(serials ...*big.Int) {
	c.t.Helper()
	list, err := c.ca.Revoke(time.Hour, serials...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.write("crl.pem", list)
}

// issue makes a new certificate and key of a server in one file, and returns the serial number.
func (c *nodeCertificates) issue(s *process.Server) *big.Int {
	c.t.Helper()
	host, _, err := net.SplitHostPort(s.Address)
	if err != nil {
		c.t.Fatal(err)
	}
	pair, err := c.ca.Issue(authority.Node("integration", filepath.Base(s.Dir), nil, []netip.Addr{netip.MustParseAddr(host)}))
	if err != nil {
		c.t.Fatal(err)
	}
	key, err := pair.KeyPEM()
	if err != nil {
		c.t.Fatal(err)
	}
	c.write(filepath.Base(s.Dir)+".pem", append(pair.CertificatePEM(), key...))
	return pair.Certificate.SerialNumber
}

// options returns the lines of a server's configuration.
func (c *nodeCertificates) options(s *process.Server, peers string, optional bool) []string {
	return []string{"server_encryption_options:", "  internode_encryption: " + peers, fmt.Sprintf("  optional: %t", optional),
		"  require_endpoint_verification: true",
		"  private_key: " + filepath.Join(c.dir, filepath.Base(s.Dir)+".pem"),
		"  trusted_certificates: " + filepath.Join(c.dir, "ca.pem"), "  revocation_lists: [" + filepath.Join(c.dir, "crl.pem") + "]"}
}

// TestInternodeEncryptionIsEnabledUnderLoad changes a ring from no encryption to required encryption, and then replaces all
// certificates, while a driver that does not retry sends requests. No request may fail, except for rollingCrossed.
func TestInternodeEncryptionIsEnabledUnderLoad(t *testing.T) {
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	between := rollingBetween
	if testing.Short() {
		between = 500 * time.Millisecond
	}
	ring := startRing(t, process.Options{Nodes: 4})
	certificates := newNodeCertificates(t, filepath.Join(ring.Servers[0].Dir, "..", "certificates"))
	serials := map[*process.Server]*big.Int{}
	for _, s := range ring.Servers {
		serials[s] = certificates.issue(s)
	}
	loads, end := startRolling(root, servers{ring.Addresses(), 4, 4}, "go-gocql")
	stalls := watchStalls(t)
	time.Sleep(between)
	for _, optional := range []bool{true, false} {
		for _, s := range ring.Servers {
			s.Stop()
			if err := s.Configure(certificates.options(s, "all", optional)...); err != nil {
				t.Fatal(err)
			}
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
			if err := ring.WaitAgreed(ringStart); err != nil {
				t.Fatal(err)
			}
			time.Sleep(between)
		}
	}
	for _, s := range ring.Servers {
		awaitInfo(t, s, "Internode encryption", "all; 3 of 3 connections from and 3 of 3 to other nodes are encrypted")
	}
	t.Log("encryption is required")
	for _, s := range ring.Servers {
		certificates.issue(s)
	}
	// Connections with the previous certificates end when those are revoked; new ones use the new certificates.
	for _, s := range ring.Servers {
		certificates.revoke(serials[s])
		time.Sleep(between)
	}
	end()
	excused := rollingCrossed + stalls()
	for _, l := range loads {
		t.Run(l.name, func(t *testing.T) { l.judgeRolling(t, 500, &excused) })
	}
}

// awaitInfo waits until a line of "cqld ctl info" has a value.
func awaitInfo(t *testing.T, s *process.Server, name, want string) {
	t.Helper()
	got := ""
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for line := range strings.Lines(mustCtl(t, s, "info")) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
				got = strings.TrimSpace(value)
			}
		}
		if got == want {
			return
		}
	}
	t.Errorf("%s: %s is %q, want %q", s.Address, name, got, want)
}
