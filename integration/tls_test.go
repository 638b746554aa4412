//go:build integration

package integration

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// secured is one node that requires TLS with certificates of clients.
type secured struct {
	t      *testing.T
	binary string
	certs  string // directory
	server *process.Server
	host   string
}

// startSecured makes certificates with `cqld certs`, and starts a node that requires them, with further options.
func startSecured(t *testing.T, yaml ...string) *secured {
	t.Helper()
	if len(yaml) == 0 {
		yaml = []string{"  require_client_auth: true"}
	}
	binary, dir := cqld(t)
	s := &secured{t: t, binary: binary, certs: filepath.Join(dir, t.Name(), "certs")}
	file := func(name string) string { return filepath.Join(s.certs, name) }
	ring, err := process.NewRing(binary, filepath.Join(dir, t.Name()),
		process.Options{Nodes: 1, YAML: append([]string{"client_encryption_options:",
			"  enabled: true", "  certificate: " + file("n1.crt"), "  private_key: " + file("n1.key"),
			"  trusted_certificates: " + file("ca.crt")}, yaml...)})
	if err != nil {
		t.Fatal(err)
	}
	s.server = ring.Servers[0]
	if s.host, _, err = net.SplitHostPort(s.server.Address); err != nil {
		t.Fatal(err)
	}
	s.make("init", "--cluster", "integration")
	s.make("node", "--name", "n1", s.host)
	s.make("client", "app")
	s.make("node", "--name", "ops", "127.63.5.2") // for the control port
	if err := s.server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.server.Stop() })
	for end := time.Now().Add(ringStart); ; time.Sleep(20 * time.Millisecond) {
		err := s.handshake(s.certs, "app")
		if err == nil {
			return s
		}
		if !s.server.Running() || time.Now().After(end) {
			t.Fatalf("%v\n%s", err, s.server.Log())
		}
	}
}

// make executes `cqld certs`.
func (s *secured) make(command string, args ...string) string {
	s.t.Helper()
	return s.makeIn(s.certs, command, args...)
}

func (s *secured) makeIn(dir, command string, args ...string) string {
	s.t.Helper()
	out, err := exec.CommandContext(s.t.Context(), s.binary,
		append([]string{"certs", command, "--dir", dir}, args...)...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("certs %s %v: %v\n%s", command, args, err, out)
	}
	return string(out)
}

// client returns the configuration of a client with a certificate of a directory; name "" means none.
func (s *secured) client(dir, name string) *tls.Config {
	s.t.Helper()
	pem, err := os.ReadFile(filepath.Join(s.certs, "ca.crt"))
	if err != nil {
		s.t.Fatal(err)
	}
	c := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: s.host}
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		s.t.Fatal("ca.crt has no certificate")
	}
	if name != "" {
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"))
		if err != nil {
			s.t.Fatal(err)
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return c
}

// handshake sends OPTIONS over TLS, and waits for SUPPORTED.
func (s *secured) handshake(dir, name string) error {
	c, err := tls.Dial("tcp", s.server.Address, s.client(dir, name))
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write([]byte{4, 0, 0, 1, 5, 0, 0, 0, 0}); err != nil {
		return err
	}
	var head [9]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return err
	}
	if head[4] != 6 {
		return fmt.Errorf("answered by opcode %d", head[4])
	}
	return nil
}

// environment returns the variables with which the drivers' programs use TLS.
func (s *secured) environment() []string {
	file := func(name string) string { return filepath.Join(s.certs, name) }
	return []string{"CQLD_TLS_CA=" + file("ca.crt"), "CQLD_TLS_CERT=" + file("app.crt"), "CQLD_TLS_KEY=" +
		file("app.key"),
		"SSL_CERT_FILE=" + file("ca.crt"), "REQUESTS_CA_BUNDLE=" + file("ca.crt")}
}

// TestClientsOverTLS connects the clients of both protocols to a node that requires certificates.
func TestClientsOverTLS(t *testing.T) {
	s := startSecured(t)
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("cqlsh", s.cqlsh)
	t.Run("strangers", s.strangers)
	for _, d := range drivers(root) {
		if d.name != "go-gocql" && d.name != "python" {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			if err := d.installed(); err != nil {
				missing(t, "the "+d.name+" driver", err.Error())
			}
			d.env = append(d.env, s.environment()...)
			out, err := d.command(t.Context(), root, "suite", servers{s.server.Address, 1, 1}).CombinedOutput()
			if n := strings.Count("\n"+string(out), "\nok "); err != nil || n < 10 {
				t.Errorf("%d checks passed: %v\n%s", n, err, out)
			}
		})
	}
	for _, p := range tablesPrograms(root) {
		if p.name != "python" {
			continue
		}
		t.Run("tables "+p.name, func(t *testing.T) {
			if !exists(p.file) {
				missing(t, "the Azure SDK", fmt.Sprintf(installHint, p.install))
			}
			p.env = append(p.env, s.environment()...)
			out, err := p.run(root, strings.Replace(s.server.Tables, "http:", "https:", 1))
			if err != nil || strings.Contains("\n"+string(out), "\nfail ") ||
				!strings.Contains("\n"+string(out), "\nok ") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// cqlsh connects with verification and a client certificate.
func (s *secured) cqlsh(t *testing.T) {
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	cqlsh := filepath.Join(root, ".tools/python/bin/cqlsh")
	if !exists(cqlsh) {
		missing(t, "cqlsh", fmt.Sprintf(installHint, "python"))
	}
	// The lines that `cqld certs client` prints.
	printed := s.make("client", "shell")
	_, rc, _ := strings.Cut(printed, "cqlshrc:\n")
	rc, _, _ = strings.Cut(rc, "\n\n")
	file := filepath.Join(s.certs, "cqlshrc")
	if err := os.WriteFile(file, []byte(rc+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(s.server.Address)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), cqlsh, "--ssl", "--cqlshrc", file, "-e",
		"SELECT cluster_name FROM system.local", host, port).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "integration") {
		t.Errorf("%v\n%s", err, out)
	}
}

// strangers connect without a certificate that the node accepts, and without encryption.
func (s *secured) strangers(t *testing.T) {
	other := filepath.Join(s.certs, "other")
	s.makeIn(other, "init", "--cluster", "integration")
	s.makeIn(other, "client", "app")
	s.make("client", "brief", "--validity", "1s")
	time.Sleep(1100 * time.Millisecond)
	for name, want := range map[string]error{"no certificate": s.handshake("", ""),
		"another authority":      s.handshake(other, "app"),
		"an expired certificate": s.handshake(s.certs, "brief")} {
		if want == nil {
			t.Errorf("a client with %s was served", name)
		}
	}
	for address, want := range map[string]string{
		s.server.Address: "", strings.TrimPrefix(s.server.Tables, "http://"): "HTTP/1.1 400 Bad Request\r\n",
	} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(10 * time.Second))
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		b, err := io.ReadAll(c)
		if !strings.HasPrefix(string(b), want) || want == "" && len(b) > 0 || os.IsTimeout(err) {
			t.Errorf("%s answers a client without encryption by %q, %v", address, b, err)
		}
		c.Close()
	}
	s.metrics(t)
}

// metrics waits for the metrics of what strangers did: the node counts a failure after it has reported it to the
// client.
func (s *secured) metrics(t *testing.T) {
	missing := ""
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		page, err := s.server.Metrics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		missing = ""
		for _, want := range []string{`cqld_certificate_expiry_seconds{use="client"} 7.7`,
			`cqld_tls_handshake_failures_total{protocol="cql",reason="nocertificate"} 1`,
			`cqld_tls_handshake_failures_total{protocol="cql",reason="untrusted"} 1`,
			`cqld_tls_handshake_failures_total{protocol="cql",reason="expired"} 1`,
			`cqld_tls_handshake_failures_total{protocol="cql",reason="plaintext"} 1`,
			`cqld_tls_handshake_failures_total{protocol="tables",reason="plaintext"} 1`} {
			if !strings.Contains(page, want) {
				missing += "\n" + want
			}
		}
		if missing == "" {
			return
		}
	}
	t.Errorf("/metrics does not have%s", missing)
}

// TestCertificatesReloadWithoutFailedRequest renews the certificates of a node under load. Connections continue, and
// new ones get the new certificate. A certificate that does not belong to its key changes nothing.
func TestCertificatesReloadWithoutFailedRequest(t *testing.T) {
	s := startSecured(t)
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range s.environment() {
		name, value, _ := strings.Cut(e, "=")
		t.Setenv(name, value)
	}
	loads, end := startRolling(root, servers{s.server.Address, 1, 1}, "go-gocql", "python")
	serial := func() string {
		c, err := tls.Dial("tcp", s.server.Address, s.client(s.certs, "app"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	last := serial()
	for range 3 {
		s.make("renew", filepath.Join(s.certs, "n1.crt"))
		if out := mustCtl(t, s.server, "reloadssl"); !strings.Contains(out, "client: the certificate expires") {
			t.Error(out)
		}
		next := serial()
		if next == last {
			t.Error("new connections get the old certificate")
		}
		last = next
		time.Sleep(200 * time.Millisecond)
	}
	s.make("node", "--overwrite", "--name", "n2", s.host)
	broken, err := os.ReadFile(filepath.Join(s.certs, "n2.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.certs, "n1.crt"), broken, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := ctl(t, s.server, "reloadssl"); err == nil ||
		!strings.Contains(out, "does not belong to the first certificate") {
		t.Errorf("%v, %s", err, out)
	}
	if serial() != last {
		t.Error("a certificate without its key is in use")
	}
	end()
	excused := 0
	for _, l := range loads {
		t.Run(l.name, func(t *testing.T) { l.judgeRolling(t, 100, &excused) })
	}
}

// TestLoginByCertificate adds identities to roles, and logs in with certificates and with passwords.
func TestLoginByCertificate(t *testing.T) {
	s := startSecured(t, "  require_client_auth: optional", "authorizer: CassandraAuthorizer", "authenticator:",
		"  class_name: org.apache.cassandra.auth.MutualTlsWithPasswordFallbackAuthenticator", "  parameters:",
		"    validator_class_name: org.apache.cassandra.auth.SpiffeCertificateValidator")
	password, err := os.ReadFile(filepath.Join(s.server.Dir, "data", "superuser-password"))
	if err != nil {
		t.Fatal(err)
	}
	admin := s.login("", "admin", strings.TrimSpace(string(password)))
	for _, statement := range []string{"CREATE ROLE app WITH LOGIN = true", "CREATE ROLE idle",
		"GRANT SELECT ON ALL KEYSPACES TO app",
		"CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}", "CREATE TABLE k.t (k int PRIMARY KEY)",
		"ADD IDENTITY 'spiffe://integration/client/app' TO ROLE 'app'",
		"ADD IDENTITY 'spiffe://integration/client/idle' TO ROLE 'idle'"} {
		if a, err := admin.Query(statement, cqlclient.Options{}); err != nil || a.Err != nil {
			t.Fatalf("%s: %v, %v", statement, err, a.Err)
		}
	}
	for _, name := range []string{"idle", "unknown"} {
		s.make("client", name)
	}
	app := s.login("app", "", "")
	if a, err := app.Query("SELECT * FROM k.t", cqlclient.Options{}); err != nil || a.Err != nil {
		t.Errorf("a permitted statement: %v, %v", err, a.Err)
	}
	if a, err := app.Query("INSERT INTO k.t (k) VALUES (1)", cqlclient.Options{}); err != nil || a.Err == nil ||
		!strings.Contains(a.Err.Error(), "User app has no MODIFY permission on <table k.t> or any of its parents") {
		t.Errorf("a forbidden statement: %v, %v", err, a.Err)
	}
	for name, want := range map[string]string{"idle": "idle is not permitted to log in",
		"unknown": "Certificate identity 'spiffe://integration/client/unknown' not authorized"} {
		if _, err := s.tryLogin(name, "admin", strings.TrimSpace(string(password))); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if _, err := s.tryLogin("", "admin", "wrong"); err == nil ||
		!strings.Contains(err.Error(), "Provided username admin and/or password are incorrect") {
		t.Errorf("a wrong password: %v", err)
	}
	// An identity that is dropped does not log in again.
	if a, err := admin.Query("DROP IDENTITY 'spiffe://integration/client/app'", cqlclient.Options{}); err != nil ||
		a.Err != nil {
		t.Fatal(err, a.Err)
	}
	if _, err := s.tryLogin("app", "", ""); err == nil || !strings.Contains(err.Error(), "not authorized") {
		t.Errorf("a dropped identity: %v", err)
	}
}

func (s *secured) tryLogin(certificate, user, password string) (*cqlclient.Conn, error) {
	s.t.Helper()
	c, err := tls.Dial("tcp", s.server.Address, s.client(s.certs, certificate))
	if err != nil {
		return nil, err
	}
	return cqlclient.LoginOn(c, 5, user, password)
}

func (s *secured) login(certificate, user, password string) *cqlclient.Conn {
	s.t.Helper()
	c, err := s.tryLogin(certificate, user, password)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return c
}

// TestControlAddressWithTLS manages a node over mutual TLS.
func TestControlAddressWithTLS(t *testing.T) {
	l, err := net.Listen("tcp", "127.63.5.2:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	binary, dir := cqld(t)
	certs := filepath.Join(dir, t.Name(), "certs")
	s := startSecured(t, "  require_client_auth: true", "control_address: "+address, "control_encryption_options:",
		"  enabled: true",
		"  certificate: "+filepath.Join(certs, "ops.crt"), "  private_key: "+filepath.Join(certs, "ops.key"),
		"  trusted_certificates: "+filepath.Join(certs, "ca.crt"))
	ask := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), binary, append([]string{"ctl", "--host", address, "--token-file",
			filepath.Join(s.server.Dir, "data", "control.token")}, args...)...).CombinedOutput()
		return string(out), err
	}
	file := func(name string) string { return filepath.Join(s.certs, name) }
	if out, err := ask("--tls-ca", file("ca.crt"), "--tls-cert", file("app.crt"), "--tls-key", file("app.key"),
		"status"); err != nil || !strings.Contains(out, "\nUN ") {
		t.Errorf("with a certificate: %v\n%s", err, out)
	}
	if out, err := ask("--tls-ca", file("ca.crt"), "status"); err == nil ||
		!strings.Contains(out, "certificate required") {
		t.Errorf("without a certificate: %v\n%s", err, out)
	}
	if out, err := ask("status"); err == nil {
		t.Errorf("without TLS: %s", out)
	}
	if out, err := ask("--tls-ca", file("ca.crt"), "--tls-cert", file("app.crt"), "--tls-key", file("app.key"),
		"--token-file", file("ca.crt"), "status"); err == nil ||
		!strings.Contains(out, "token") {
		t.Errorf("without the token: %v\n%s", err, out)
	}
}
