package tlsconfig_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/tlsconfig"
	"cqld/tlsconfig/authority"
)

// testdata has one P-256 key in several encryptions, with the password "secret".
func TestEncryptedPrivateKeys(t *testing.T) {
	for _, c := range []struct{ file, password, want string }{
		{"aes256.pem", "secret", ""},
		{"aes128sha1.pem", "secret", ""},
		{"des3sha512.pem", "secret", ""},
		{"aes256.pem", "wrong", "private_key_password does not decrypt the private key"},
		{"aes256.pem", "", "the private key is encrypted; set private_key_password"},
		{"scrypt.pem", "secret", "the encryption of the private key is not supported; " +
			"convert it with `openssl pkcs8 -topk8 -v2 aes-256-cbc"},
		{"legacy.pem", "secret", "has PEM encryption, which is not supported because it is insecure; " +
			"convert it with `openssl pkcs8 -topk8"},
		{"rsa1024.pem", "", "an RSA key needs at least 2048 bits; this one has 1024"},
		{"k1.pem", "", "unknown elliptic curve"},
		{"public.pem", "", "has no PRIVATE KEY block"},
		{"store.jks", "", "is a Java keystore (JKS or JCEKS), and only PEM files are supported; " +
			"convert it with `keytool -importkeystore"},
		{"store.p12", "", "is binary, such as a PKCS#12 keystore or DER, and only PEM files are supported; " +
			"convert it with `openssl pkcs12"},
	} {
		text, err := os.ReadFile(filepath.Join("testdata", c.file))
		if err != nil {
			t.Fatal(err)
		}
		key, err := tlsconfig.ParseKey(c.file, text, c.password)
		if c.want == "" && (err != nil || key == nil) || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s with password %q: %v, want %q", c.file, c.password, err, c.want)
		}
		if err != nil && !strings.HasPrefix(err.Error(), c.file) {
			t.Errorf("the error does not name the file: %v", err)
		}
	}
}

func TestFilesThatCannotBeUsed(t *testing.T) {
	p := newPKI(t)
	pair := p.issue(p.ca, nodeRequest())
	other := p.issue(p.ca, nodeRequest())
	otherKey, err := other.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	expired, future := nodeRequest(), nodeRequest()
	expired.Issued, future.Issued = p.clock.Now().Add(-100*24*time.Hour), p.clock.Now().Add(time.Hour)
	crowded := nodeRequest()
	for i := range 300 {
		crowded.DNS = append(crowded.DNS, fmt.Sprintf("n%d.example", i))
	}
	for name, c := range map[string]struct {
		change func(f *tlsconfig.Files)
		want   string
	}{
		"no certificate file": {func(f *tlsconfig.Files) { f.Certificate = filepath.Join(p.dir, "missing") },
			"no such file"},
		"a directory":   {func(f *tlsconfig.Files) { f.Certificate = p.dir }, "is not a regular file"},
		"an empty file": {func(f *tlsconfig.Files) { f.Certificate = p.write("empty", nil) }, "empty is empty"},
		"text": {func(f *tlsconfig.Files) { f.Certificate = p.write("text", []byte("hello")) },
			"text has no PEM block"},
		"another's key": {func(f *tlsconfig.Files) { f.PrivateKey = p.write("other.key", otherKey) },
			"does not belong to the first certificate of"},
		"no key": {func(f *tlsconfig.Files) { f.PrivateKey = "" }, "a certificate needs a private key"},
		"key and certificate exchanged": {func(f *tlsconfig.Files) {
			f.Certificate, f.PrivateKey = f.PrivateKey,
				f.Certificate
		},
			"has no CERTIFICATE block"},
		"an expired certificate": {func(f *tlsconfig.Files) { *f = p.files(p.issue(p.ca, expired)) },
			"expired on 1970-01-02 13:46:40 UTC; renew it"},
		"a future certificate": {func(f *tlsconfig.Files) { *f = p.files(p.issue(p.ca, future)) },
			"is not valid before 1970-01-12 14:41:40 UTC; check the clock"},
		"too many names": {func(f *tlsconfig.Files) { *f = p.files(p.issue(p.ca, crowded)) },
			"the certificate has 303 names, and at most 256 are supported"},
		"a truncated certificate": {func(f *tlsconfig.Files) {
			f.Certificate = p.write("cut", []byte("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"))
		}, "certificate 1: x509: malformed"},
		"too many certificates": {func(f *tlsconfig.Files) {
			f.Certificate = p.write("many", slices.Repeat(pair.CertificatePEM(), 17))
		}, "has more than 16 certificates"},
		"a revocation list without authorities": {func(f *tlsconfig.Files) {
			f.TrustedCertificates,
				f.RevocationLists = "", []string{"x"}
		},
			"revocation lists need trusted certificates"},
		"a certificate as revocation list": {func(f *tlsconfig.Files) { f.RevocationLists = []string{f.Certificate} },
			"has no X509 CRL block"},
		"a large file": {func(f *tlsconfig.Files) {
			f.TrustedCertificates = p.write("large",
				make([]byte, 5<<20))
		}, "is larger than 4194304 bytes"},
	} {
		f := p.files(pair)
		c.change(&f)
		s, err := tlsconfig.Open(f, tlsconfig.Options{Clock: p.clock})
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestPrivateKeysOfOthersAreRefused(t *testing.T) {
	p := newPKI(t)
	f := p.files(p.issue(p.ca, nodeRequest()))
	root := os.Getuid() == 0 // then the files belong to root
	for mode, allowed := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o440: root, 0o640: root, 0o660: false,
		0o604: false, 0o644: false, 0o602: false, 0o610: false} {
		if err := os.Chmod(f.PrivateKey, mode); err != nil {
			t.Fatal(err)
		}
		s, err := tlsconfig.Open(f, tlsconfig.Options{Clock: p.clock})
		if err == nil {
			s.Close()
		}
		if (err == nil) != allowed {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
	if root {
		if err := os.Chmod(f.PrivateKey, 0o640); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(f.PrivateKey, 1, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := tlsconfig.Open(f, tlsconfig.Options{Clock: p.clock}); err == nil {
			t.Error("a key that the group of another user may read is accepted")
		}
	}
}

// TestOneFileHasKeyAndCertificates reads the form of Cassandra's PEM keystores, and PEM text instead of paths.
func TestOneFileHasKeyAndCertificates(t *testing.T) {
	p := newPKI(t)
	pair := p.issue(p.ca, nodeRequest())
	key, err := pair.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	store := append(key, pair.CertificatePEM()...)
	for name, f := range map[string]tlsconfig.Files{
		"file": {PrivateKey: p.write("store.pem", store),
			TrustedCertificates: p.write("ca.pem", p.ca.CertificatePEM())},
		"inline text": {PrivateKey: string(store), TrustedCertificates: string(p.ca.CertificatePEM())},
	} {
		s := p.open(f)
		if !s.HasCertificate() || !s.HasTrusted() || !s.Expiry().Equal(pair.Certificate.NotAfter) {
			t.Errorf("%s: %v", name, s.Stats())
		}
		if _, clientErr, serverErr := handshake(t, s.Client(tlsconfig.Policy{ServerName: "n1.example"}),
			s.Server(tlsconfig.Policy{})); clientErr != nil || serverErr != nil {
			t.Errorf("%s: %v, %v", name, clientErr, serverErr)
		}
	}
}

func TestIdentities(t *testing.T) {
	p := newPKI(t)
	node := p.issue(p.ca, nodeRequest()).Certificate
	client := p.issue(p.ca, authority.Client("Test Cluster", "an app")).Certificate
	if id, ok := tlsconfig.SPIFFE(node); !ok || id != "spiffe://test-cluster/node/n1" {
		t.Errorf("the node is %q", id)
	}
	if id, ok := tlsconfig.SPIFFE(client); !ok || id != "spiffe://test-cluster/client/an%20app" {
		t.Errorf("the client is %q", id)
	}
	for _, cluster := range []string{"test-cluster", "Test Cluster"} {
		if name, ok := tlsconfig.Node(node, cluster); !ok || name != "n1" {
			t.Errorf("the node of %s is %q", cluster, name)
		}
		if name, ok := tlsconfig.Node(client, cluster); ok {
			t.Errorf("a client counts as node %q", name)
		}
	}
	if name, ok := tlsconfig.Node(node, "other"); ok {
		t.Errorf("the node of another cluster counts as %q", name)
	}
	plain := p.issue(p.ca, authority.Request{Name: "x", Client: true}).Certificate
	if id, ok := tlsconfig.SPIFFE(plain); ok {
		t.Errorf("a certificate without identity has %q", id)
	}
	plain.URIs = []*url.URL{{Scheme: "https", Host: "x"}, {Scheme: "spiffe", Host: "a", Path: "/b"},
		{Scheme: "spiffe", Host: "c"}}
	if id, ok := tlsconfig.SPIFFE(plain); !ok || id != "spiffe://a/b" {
		t.Errorf("the first identity of several is %q", id)
	}
}
