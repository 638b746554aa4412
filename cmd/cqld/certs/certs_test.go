package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"cqld/node/config"
	"cqld/tlsconfig"
)

// run executes `cqld certs` with arguments, in a directory.
func run(t *testing.T, dir, command string, args ...string) (string, error) {
	t.Helper()
	var cli Commands
	var out bytes.Buffer
	parser, err := kong.New(&cli, kong.BindTo(&out, (*io.Writer)(nil)))
	if err != nil {
		t.Fatal(err)
	}
	k, err := parser.Parse(append([]string{command, "--dir", dir}, args...))
	if err != nil {
		return "", err
	}
	err = k.Run()
	return out.String(), err
}

func must(t *testing.T, dir, command string, args ...string) string {
	t.Helper()
	out, err := run(t, dir, command, args...)
	if err != nil {
		t.Fatalf("%s %v: %v", command, args, err)
	}
	return out
}

func refuses(t *testing.T, want, dir, command string, args ...string) {
	t.Helper()
	if out, err := run(t, dir, command, args...); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s %v: %q, %v; want %q", command, args, out, err, want)
	}
}

func load(t *testing.T, dir, name string) *x509.Certificate {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	list, err := tlsconfig.ParseCertificates(name, text, 4)
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

// verified checks a certificate of the directory for a use, as a peer does.
func verified(t *testing.T, dir, name, host string, use x509.ExtKeyUsage) *x509.Certificate {
	t.Helper()
	c, roots := load(t, dir, name), x509.NewCertPool()
	roots.AddCert(load(t, dir, "ca.crt"))
	if _, err := c.Verify(x509.VerifyOptions{DNSName: host, Roots: roots,
		KeyUsages: []x509.ExtKeyUsage{use}}); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return c
}

func TestOneCommandForEachCertificate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	refuses(t, "there is no certificate authority: ", dir, "node", "127.0.0.1")
	must(t, dir, "init", "--cluster", "Shop")
	out := must(t, dir, "node", "--name", "n1", "127.0.0.5", "::1", "n1.example")
	must(t, dir, "client", "app")
	for _, host := range []string{"127.0.0.5", "::1", "n1.example"} {
		verified(t, dir, "n1.crt", host, x509.ExtKeyUsageServerAuth)
	}
	n1 := verified(t, dir, "n1.crt", "", x509.ExtKeyUsageClientAuth)
	if name, ok := tlsconfig.Node(n1, "Shop"); !ok || name != "n1" {
		t.Errorf("node %q", name)
	}
	if days := time.Until(n1.NotAfter).Hours() / 24; days < 89.9 || days > 90 {
		t.Errorf("the node's certificate is valid for %v days", days)
	}
	app := verified(t, dir, "app.crt", "", x509.ExtKeyUsageClientAuth)
	if id, _ := tlsconfig.SPIFFE(app); id != "spiffe://shop/client/app" {
		t.Errorf("identity %s", id)
	}
	if years := time.Until(load(t, dir, "ca.crt").NotAfter).Hours() / 24 / 365; years < 9.9 || years > 10 {
		t.Errorf("the CA is valid for %v years", years)
	}
	for file, mode := range map[string]os.FileMode{"": 0o700, "ca.key": 0o600, "n1.key": 0o600, "app.key": 0o600,
		"ca.crt": 0o644, "n1.crt": 0o644} {
		if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	usable(t, out)
}

// usable loads the printed options.
func usable(t *testing.T, out string) {
	t.Helper()
	_, yaml, _ := strings.Cut(out, "Options for the configuration file:\n")
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	o := config.Default()
	if err := o.LoadFile(file); err != nil {
		t.Fatal(err)
	}
	if err := o.Validate(); err != nil {
		t.Error(err)
	}
	if !o.Encryption.Clients.Enabled || o.Encryption.Internode.Peers != "all" {
		t.Errorf("the options are %+v", o.Encryption.Clients)
	}
	for _, f := range []tlsconfig.Files{o.Encryption.Clients.Files, o.Encryption.Internode.Files} {
		if _, err := tlsconfig.ClientConfig(f, "x", time.Now()); err != nil {
			t.Error(err)
		}
	}
}

func TestFilesAreNotOverwrittenUnasked(t *testing.T) {
	dir := t.TempDir()
	must(t, dir, "init")
	must(t, dir, "node", "127.0.0.1")
	before := load(t, dir, "127.0.0.1.crt")
	refuses(t, "ca.crt exists; set --overwrite to replace it, or use `cqld certs renew`", dir, "init")
	refuses(t, "127.0.0.1.crt exists", dir, "node", "127.0.0.1")
	refuses(t, "127.0.0.1.crt exists", dir, "client", "127.0.0.1")
	refuses(t, `"ca" cannot be the name of a certificate`, dir, "client", "ca")
	refuses(t, `"../x" cannot be the name`, dir, "client", "../x")
	refuses(t, `"127.0.0.1:9042" is neither an IP address nor a DNS name`, dir, "node", "127.0.0.1:9042")
	refuses(t, `--validity: "90" is not a duration such as 90d or 12h`, dir, "client", "x", "--validity", "90")
	if !load(t, dir, "127.0.0.1.crt").Equal(before) {
		t.Error("a refused command changed the certificate")
	}
	must(t, dir, "node", "127.0.0.1", "--overwrite", "--validity", "12h")
	if after := load(t, dir, "127.0.0.1.crt"); after.Equal(before) || time.Until(after.NotAfter) > 12*time.Hour {
		t.Error("--overwrite has no effect")
	}
}

func TestRenewKeepsNamesAndKeyType(t *testing.T) {
	dir := t.TempDir()
	must(t, dir, "init", "--cluster", "shop")
	must(t, dir, "node", "--name", "n1", "127.0.0.5", "n1.example", "--validity", "10d")
	must(t, dir, "client", "app")
	before, app := load(t, dir, "n1.crt"), load(t, dir, "app.crt")
	if out := must(t, dir, "renew", "--within", "30d"); !strings.Contains(out, "app.crt: not renewed; it expires on") {
		t.Error(out)
	}
	after := verified(t, dir, "n1.crt", "n1.example", x509.ExtKeyUsageServerAuth)
	if after.Equal(before) || !load(t, dir, "app.crt").Equal(app) {
		t.Error("the wrong certificates were renewed")
	}
	sameNames(t, before, after)
	if after.PublicKey.(*ecdsa.PublicKey).Equal(before.PublicKey) {
		t.Error("the key was kept")
	}
	if d := after.NotAfter.Sub(after.NotBefore) - before.NotAfter.Sub(before.NotBefore); d != 0 {
		t.Errorf("the validity changed by %v", d)
	}
	must(t, dir, "renew", filepath.Join(dir, "n1.crt"), "--keep-key", "--validity", "20d")
	if kept := load(t, dir, "n1.crt"); !kept.PublicKey.(*ecdsa.PublicKey).Equal(after.PublicKey) ||
		time.Until(kept.NotAfter) < 19*24*time.Hour {
		t.Error("--keep-key or --validity has no effect")
	}
	ca := load(t, dir, "ca.crt")
	must(t, dir, "renew", filepath.Join(dir, "ca.crt"), "--validity", "7300d")
	if renewed := load(t, dir, "ca.crt"); renewed.Equal(ca) || time.Until(renewed.NotAfter) < 7299*24*time.Hour {
		t.Error("the CA was not renewed")
	}
	verified(t, dir, "n1.crt", "127.0.0.5", x509.ExtKeyUsageServerAuth)
	must(t, dir, "client", "late")
	verified(t, dir, "late.crt", "", x509.ExtKeyUsageClientAuth)
}

func sameNames(t *testing.T, a, b *x509.Certificate) {
	t.Helper()
	if a.Subject.String() != b.Subject.String() || strings.Join(a.DNSNames, " ") != strings.Join(b.DNSNames, " ") ||
		len(a.IPAddresses) != len(b.IPAddresses) ||
		len(a.URIs) != len(b.URIs) || len(a.URIs) == 1 && a.URIs[0].String() != b.URIs[0].String() {
		t.Errorf("the names changed from %v to %v", a.DNSNames, b.DNSNames)
	}
}

// TestOutsideAuthorities uses a CA with an RSA key that another program has made.
func TestOutsideAuthorities(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	cert, key := filepath.Join(outside, "root.pem"), filepath.Join(outside, "root-key.pem")
	authorityKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Company CA"},
		NotBefore: time.Now(), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	writeOutside(t, cert, key, authority, authority, authorityKey, authorityKey)
	files := []string{"--ca-cert", cert, "--ca-key", key}
	refuses(t, "the certificate of the CA does not name a cluster; set --cluster", dir, "client",
		append(files, "app")...)
	must(t, dir, "client", append(files, "--cluster", "shop", "app")...)
	if c := load(t, dir, "app.crt"); c.NotAfter.After(authority.NotAfter) {
		t.Error("the certificate outlives its authority")
	}
	leafKey, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2),
		Subject: pkix.Name{CommonName: "n7", Organization: []string{"Company"}}, DNSNames: []string{"n7.example"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 7)}, NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	writeOutside(t, filepath.Join(dir, "n7.crt"), filepath.Join(dir, "n7.key"), leaf, authority, leafKey, authorityKey)
	before := load(t, dir, "n7.crt")
	must(t, dir, "renew", append(files, filepath.Join(dir, "n7.crt"))...)
	after := load(t, dir, "n7.crt")
	sameNames(t, before, after)
	if k, ok := after.PublicKey.(*ecdsa.PublicKey); !ok || k.Curve != elliptic.P384() || len(after.ExtKeyUsage) != 1 {
		t.Errorf("the key is %T, the usages are %v", after.PublicKey, after.ExtKeyUsage)
	}
	other := t.TempDir()
	must(t, other, "init")
	refuses(t, "the certificate was issued by another authority; set --ca-cert and --ca-key", other, "renew",
		filepath.Join(dir, "n7.crt"))
	refuses(t, "contains no certificates to renew", other, "renew")
}

func writeOutside(t *testing.T, certPath, keyPath string, c, parent *x509.Certificate, key, parentKey crypto.Signer) {
	t.Helper()
	der, err1 := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), parentKey)
	private, err2 := x509.MarshalPKCS8PrivateKey(key)
	if err := errors.Join(err1, err2,
		os.WriteFile(certPath, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644),
		os.WriteFile(keyPath, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600)); err != nil {
		t.Fatal(err)
	}
}
