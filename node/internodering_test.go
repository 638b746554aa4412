package node

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/await"
	"cqld/messaging/internodetls"
	"cqld/node/config"
	"cqld/node/control"
	"cqld/tlsconfig"
	"cqld/tlsconfig/authority"
)

// internodeFiles makes the certificate of a node at an address, and returns options that use it.
func internodeFiles(t *testing.T, ca *authority.Authority, address netip.Addr,
	peers internodetls.Encryption) config.InternodeEncryption {
	t.Helper()
	pair, err := ca.Issue(authority.Node("cqld", address.String(), nil, []netip.Addr{address}))
	if err != nil {
		t.Fatal(err)
	}
	key, err := pair.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return config.InternodeEncryption{Peers: peers, Encryption: config.Encryption{
		ClientAuth: tlsconfig.ClientAuthRequired, Files: tlsconfig.Files{
			PrivateKey:          write("node.pem", append(pair.CertificatePEM(), key...)),
			TrustedCertificates: write("ca.pem", ca.CertificatePEM())}}}
}

func newAuthority(t *testing.T) *authority.Authority {
	t.Helper()
	ca, err := authority.New(authority.Environment{}, "tests", 0)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// With internode_encryption: dc, connections to nodes of other data centers are encrypted, and those within one are
// not. A node whose certificate is of another authority cannot join.
func TestConnectionsBetweenDataCentersAreEncrypted(t *testing.T) {
	ca, n := newAuthority(t), 0
	r := openNodes(t, 133, 3, func(o *config.Options) {
		o.Encryption.Internode = internodeFiles(t, ca, o.Listen.Address, internodetls.Datacenter)
		o.Tables.Port, o.FS = 0, vfs.NewCrashableMem()
		if n++; n == 3 {
			o.Datacenter = "far"
		}
	})
	// A node that joins does not know yet who is in its data center, so its first connections are all encrypted.
	r.kill(1, nil)
	for i, want := range []string{"from 1/2, to 1/2", "from 1/2, to 1/2", "from 2/2, to 2/2"} {
		got := ""
		if !await.Reached(time.Minute, func() bool {
			c := r.nodes[i].commands.Status.Internode()
			got = fmt.Sprintf("from %d/%d, to %d/%d", c.FromEncrypted, c.From, c.ToEncrypted, c.To)
			return got == want
		}) {
			t.Errorf("node %d has encrypted connections %s, want %s", i+1, got, want)
		}
	}
	info, err := r.nodes[2].commands.Status.Info(t.Context(), control.None{}, nil)
	if err != nil || info.Internode.Certificate == "" {
		t.Errorf("info: %+v, %v", info.Internode, err)
	}

	o := r.nodes[0].opts
	o.Listen.Address = netip.AddrFrom4([4]byte{127, 0, 133, 9})
	o.Listen.RPCAddress, o.FS, o.DataDir = o.Listen.Address, vfs.NewMem(), t.TempDir()
	o.Encryption.Internode = internodeFiles(t, newAuthority(t), o.Listen.Address, internodetls.All)
	if err := o.FS.MkdirAll(o.DataDir, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if node, err := Open(ctx, o); err == nil {
		t.Error("a node with a certificate of another authority has joined")
		_ = node.Close(ctx) // the test has failed
	}
	page := httptest.NewRecorder()
	r.nodes[0].metrics.Page().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{`cqld_internode_connections{direction="to",encrypted="true"} 1`,
		`cqld_certificate_expiry_seconds{use="internode"}`,
		`cqld_internode_handshake_failures_total{direction="from",reason="refused"}`} {
		if !strings.Contains(page.Body.String(), want) {
			t.Errorf("the metrics do not contain %s", want)
		}
	}
}

// A node whose certificate files cannot be used does not start.
func TestUnusableCertificatesOfNodes(t *testing.T) {
	o := config.Default()
	o.FS, o.DataDir, o.Logger = vfs.NewMem(), t.TempDir(), nil
	o.Encryption.Internode = internodeFiles(t, newAuthority(t), o.Listen.Address, internodetls.All)
	o.Encryption.Internode.Files.PrivateKey += ".missing"
	if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "server_encryption_options: ") {
		t.Errorf("got %v", err)
	}
}
