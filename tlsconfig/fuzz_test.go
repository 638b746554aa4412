package tlsconfig_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cqld/tlsconfig"
	"cqld/tlsconfig/authority"
)

// FuzzPEM parses malformed certificates and keys. Errors never contain the password or the text of the file.
func FuzzPEM(f *testing.F) {
	files, err := filepath.Glob("testdata/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			f.Add(text, "secret")
		}
	}
	if ca, err := authority.New(authority.Environment{}, "CA", 0); err == nil {
		f.Add(ca.CertificatePEM(), "")
		if list, err := ca.Revoke(1, ca.Certificate.SerialNumber); err == nil {
			f.Add(list, "")
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, password string) {
		certs, err := tlsconfig.ParseCertificates("file", text, 4)
		if (err == nil) != (len(certs) > 0) || len(certs) > 4 {
			t.Errorf("%d certificates, %v", len(certs), err)
		}
		for _, c := range certs {
			checkIdentity(t, c)
		}
		if strings.Count(string(text), "ENCRYPTED") > 0 {
			return // the derivation of a key may take seconds, which is bounded, but not for fuzzing
		}
		key, err := tlsconfig.ParseKey("file", text, password)
		if (err == nil) != (key != nil) {
			t.Errorf("key %v, %v", key, err)
		}
		_, _ = tlsconfig.ParseRevocationLists(text)
	})
}

// FuzzIdentity extracts identities from malformed certificates.
func FuzzIdentity(f *testing.F) {
	ca, err := authority.NewCluster(authority.Environment{}, "Test Cluster", 0)
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range []authority.Request{nodeRequest(), authority.Client("c", "d"), {Name: "x"}} {
		pair, err := ca.Issue(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(pair.Certificate.Raw)
	}
	f.Add(ca.Certificate.Raw)
	f.Fuzz(func(t *testing.T, der []byte) {
		if c, err := x509.ParseCertificate(der); err == nil {
			checkIdentity(t, c)
		}
	})
}

func checkIdentity(t *testing.T, c *x509.Certificate) {
	t.Helper()
	if id, ok := tlsconfig.SPIFFE(c); ok != strings.HasPrefix(id, "spiffe://") {
		t.Errorf("identity %q, %t", id, ok)
	}
	if name, ok := tlsconfig.Node(c, "Test Cluster"); ok != (name != "") {
		t.Errorf("node %q, %t", name, ok)
	}
}

// TestCertificatesWithManyNamesAreRefused presents a certificate of a trusted authority with 10,000 names, and one
// whose chain is larger than a handshake may be.
func TestCertificatesWithManyNamesAreRefused(t *testing.T) {
	p := newPKI(t)
	s := p.open(p.files(p.issue(p.ca, nodeRequest())))
	for names, want := range map[int]string{10_000: "the certificate has 10001 names, and at most 256 are supported",
		40_000: "oversized message|exceeds maximum"} {
		crowded := authority.Client("c", "many")
		for i := range names {
			crowded.DNS = append(crowded.DNS, fmt.Sprintf("n%d.example", i))
		}
		pair := p.issue(p.ca, crowded)
		if names == 10_000 {
			text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate.Raw})
			if _, err := tlsconfig.ParseCertificates("file", text, 1); err == nil ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("a file: %v", err)
			}
		}
		_, clientErr, serverErr := handshake(t, &tls.Config{RootCAs: p.ca.Pool(), ServerName: "n1.example",
			Time:         p.clock.Now,
			Certificates: []tls.Certificate{pair.TLS()}},
			s.Server(tlsconfig.Policy{ClientAuth: tlsconfig.ClientAuthRequired}))
		if clientErr == nil || serverErr == nil {
			t.Fatalf("a client with %d names: %v, %v", names, clientErr, serverErr)
		}
		first, second, _ := strings.Cut(want, "|")
		if msg := serverErr.Error(); !strings.Contains(msg, first) && (second == "" || !strings.Contains(msg, second)) {
			t.Errorf("a client with %d names: %v", names, serverErr)
		}
	}
}
