//go:build integration && linux

package integration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/netns"
	"cqld/integration/process"
)

const (
	realNodes = 4 // at the start
	realSpare = 2 // one that joins, and one that replaces another
	// realBetween is the time under load between two changes of the ring.
	realBetween = time.Second
	// The account of Azure Tables: the development account is for loopback addresses only.
	realAccount = "integration"
	realKey     = "a2V5IG9mIHRoZSBpbnRlZ3JhdGlvbiB0ZXN0cw=="
)

// TestRealAddresses runs a ring whose nodes have a network namespace and an address each, with TLS, logins and
// permissions. All clients are in a further namespace. Under load from there, the ring changes its members,
// certificates and its superuser, and no request at QUORUM fails.
func TestRealAddresses(t *testing.T) {
	if !netns.Inside() {
		runInNamespace(t)
		return
	}
	r := startReal(t)
	w := r.startLoad()
	stalls := watchMachine(t)
	phases := []realPhase{{"clients", time.Now()}}
	t.Run("clients", r.clients)
	for _, phase := range []struct {
		name string
		run  func(*testing.T, *workload)
	}{{"join", r.join}, {"decommission", r.decommission}, {"replace", r.replace}, {"rotation", r.rotate},
		{"superuser", r.recover}} {
		began := time.Now()
		phases = append(phases, realPhase{phase.name, began})
		if !t.Run(phase.name, func(t *testing.T) { phase.run(t, w) }) {
			t.FailNow()
		}
		t.Logf("%s took %v", phase.name, time.Since(began).Round(time.Millisecond))
		time.Sleep(realBetween)
	}
	w.stop()
	crossed := r.killedAt
	failed := w.failures(func(o outcome) bool { // a connection to a node that was killed ends
		var answered *cqlclient.Error
		return o.address == r.killed && o.at.Add(o.took).After(crossed) && !errors.As(o.err, &answered)
	})
	stalls()
	reportByPhase(t, phases, failed)
	t.Logf("%d requests, %d failed", w.asked, len(failed))
	if w.asked < 500 {
		t.Errorf("only %d requests were sent", w.asked)
	}
	w.readBack(t, r.ring.Servers[0].Address)
}

// realPhase is a part of the test and its start.
type realPhase struct {
	name  string
	began time.Time
}

// reportByPhase fails the test for every request that failed, and shows the first ones of each phase.
func reportByPhase(t *testing.T, phases []realPhase, failed []outcome) {
	for i, p := range phases {
		count := 0
		for _, o := range failed {
			if o.at.Before(p.began) || i+1 < len(phases) && !o.at.Before(phases[i+1].began) {
				continue
			}
			if count++; count <= 5 {
				t.Errorf("%s: a request to %s failed at %s after %v: %v", p.name, o.address,
					o.at.Format("15:04:05.000"), o.took, o.err)
			}
		}
		t.Logf("%s: %d requests failed", p.name, count)
	}
	if len(failed) > 0 {
		t.Errorf("%d requests failed", len(failed))
	}
}

// realStall is the delay of a process from which a machine is too busy for the deadlines of requests, which are 2 s and
// more.
const realStall = time.Second

// watchMachine logs when this process was not scheduled for realStall, until the returned function is called. It
// excuses no failed request.
func watchMachine(t *testing.T) (end func()) {
	stop, ended := make(chan struct{}), make(chan []string, 1)
	go func() {
		var seen []string
		for {
			began := time.Now()
			select {
			case <-stop:
				ended <- seen
				return
			case <-time.After(10 * time.Millisecond):
			}
			if late := time.Since(began); late > realStall {
				seen = append(seen, fmt.Sprintf("%s for %v", began.Format("15:04:05.000"),
					late.Round(time.Millisecond)))
			}
		}
	}()
	return func() {
		close(stop)
		if seen := <-ended; len(seen) > 0 {
			t.Logf("the machine did not schedule this process: %s", strings.Join(seen, ", "))
		}
	}
}

// runInNamespace builds the programs that the test executes, and runs the test again in a network namespace.
func runInNamespace(t *testing.T) {
	if _, err := exec.LookPath("ip"); err != nil {
		missing(t, "iproute2", "install the package iproute2")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	_, dir := cqld(t)
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", dir, "./go-gocql", "./go-apache", "./tables-go")
	cmd.Dir = filepath.Join(root, "integration/drivers")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv(builtVariable, dir)
	out, err := netns.Run(ctx, "none", "-test.run=^TestRealAddresses$", "-test.v", "-test.timeout=7m")
	if errors.Is(err, netns.ErrNotPermitted) {
		missing(t, "CLONE_NEWNET", err.Error())
	}
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// realRing is a ring of nodes in namespaces.
type realRing struct {
	t        *testing.T
	root     string
	dir      string // of the built programs
	certs    string
	password string // of the superuser
	roots    *x509.CertPool
	ring     *process.Ring
	killed   string // the address of the node that was killed
	killedAt time.Time
}

func (r *realRing) ca() string { return filepath.Join(r.certs, "ca.crt") }

// startReal makes the network and the certificates, and starts the nodes.
func startReal(t *testing.T) *realRing {
	binary, built := cqld(t)
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(built, t.Name())
	r := &realRing{t: t, root: root, dir: built, certs: filepath.Join(dir, "certs"), password: "first password",
		roots: x509.NewCertPool()}
	file := filepath.Join(dir, "password")
	o := process.Options{Nodes: realNodes, Spare: realSpare, Hosts: r.network(realNodes + realSpare),
		Dial:  r.dialer(superuser, &r.password),
		Flags: []string{"--superuser", superuser, "--superuser-password-file", file},
		YAML: []string{"authenticator: PasswordAuthenticator", "authorizer: CassandraAuthorizer",
			fmt.Sprintf("tables_accounts: [ { name: %s, key: %s, role: %s } ]", realAccount, realKey, superuser)}}
	if r.ring, err = process.NewRing(binary, dir, o); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(r.password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.command(t, "certs", "init", "--dir", r.certs, "--cluster", "integration")
	pem, err := os.ReadFile(r.ca())
	if err != nil || !r.roots.AppendCertsFromPEM(pem) {
		t.Fatalf("%v\n%s", err, pem)
	}
	for _, s := range append(r.ring.Spare, r.ring.Servers...) {
		out := r.command(t, "certs", "node", "--dir", r.certs, "--name", filepath.Base(s.Dir), host(s))
		_, yaml, _ := strings.Cut(out, "Options for the configuration file:\n")
		if err := s.Configure(yaml); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(r.ring.Stop)
	if err := r.ring.Start(ringStart); err != nil {
		t.Fatal(err)
	}
	return r
}

// network makes n namespaces, which a bridge connects with each other and with this one.
func (r *realRing) network(n int) (hosts []process.Host) {
	r.t.Helper()
	bridge, err := netns.NewBridge(r.t.Context(), netip.MustParsePrefix("10.77.0.100/24"))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range n {
		address := netip.AddrFrom4([4]byte{10, 77, 0, byte(i + 1)})
		namespace, err := bridge.Connect(r.t.Context(), address)
		if err != nil {
			r.t.Fatal(err)
		}
		r.t.Cleanup(func() { namespace.Close() })
		hosts = append(hosts, process.Host{Address: address.String(), Enter: namespace.Do})
	}
	return hosts
}

func host(s *process.Server) string { return strings.TrimSuffix(s.Address, ":9042") }

// command executes a command of cqld.
func (r *realRing) command(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(r.dir, "cqld"), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// dialer returns a function that connects over TLS, verifies the certificate for the address, and logs in.
func (r *realRing) dialer(user string, password *string) process.Dialer {
	return func(address string) (*cqlclient.Conn, error) {
		sock, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", address,
			&tls.Config{RootCAs: r.roots})
		if err != nil {
			return nil, err
		}
		return cqlclient.LoginOn(sock, 4, user, *password)
	}
}

// startLoad makes a role that may only create keyspaces, and writes and reads as that role at all nodes.
func (r *realRing) startLoad() *workload {
	r.t.Helper()
	c, err := r.dialer(superuser, &r.password)(r.ring.Servers[0].Address)
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	password := "password of the load"
	query(r.t, c, "CREATE ROLE load WITH PASSWORD = '"+password+"' AND LOGIN = true", cqlclient.Options{})
	query(r.t, c, "GRANT CREATE ON ALL KEYSPACES TO load", cqlclient.Options{})
	w := startWorkloadAs(r.t, r.dialer("load", &password), strings.Split(r.ring.Addresses(), ","), "loaded", 1)
	w.pause.Store(int64(5 * time.Millisecond))
	return w
}

// environment returns the variables by which the clients' programs use TLS and log in.
func (r *realRing) environment() []string {
	return []string{"CQLD_TLS_CA=" + r.ca(), "SSL_CERT_FILE=" + r.ca(), "REQUESTS_CA_BUNDLE=" + r.ca(),
		"NODE_EXTRA_CA_CERTS=" + r.ca(),
		"CQLD_USER=" + superuser, "CQLD_PASSWORD=" + r.password, "CQLD_TABLES_ACCOUNT=" + realAccount,
		"CQLD_TABLES_KEY=" + realKey}
}

// clients connects every driver, the SDKs of Azure Tables and cqlsh.
func (r *realRing) clients(t *testing.T) {
	for _, d := range drivers(r.root) {
		t.Run(d.name, func(t *testing.T) { r.driver(t, d) })
	}
	for _, p := range tablesPrograms(r.root) {
		if p.name != "raw" { // it is not one of the SDKs
			t.Run("tables "+p.name, func(t *testing.T) { r.tables(t, p) })
		}
	}
	t.Run("cqlsh", r.cqlsh)
}

// driver executes the program "login" of a driver.
func (r *realRing) driver(t *testing.T, d driver) {
	t.Parallel()
	if err := d.installed(); err != nil {
		missing(t, "the "+d.name+" driver", err.Error())
	}
	if d.argv[0] == "go" {
		d.argv = []string{filepath.Join(r.dir, d.name)}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := d.command(ctx, r.root, "login", servers{r.ring.Addresses(), realNodes, 3})
	cmd.Env = append(cmd.Env, r.environment()...)
	out, err := cmd.CombinedOutput()
	for _, check := range []string{"correct", "wrong", "unknown"} {
		if !strings.Contains("\n"+string(out), "\nok "+check) {
			t.Errorf("%s: %v\n%s", check, err, out)
		}
	}
}

// tables executes the suite of an SDK.
func (r *realRing) tables(t *testing.T, p tablesProgram) {
	t.Parallel()
	if p.file != "" && !exists(p.file) {
		missing(t, "the Azure SDK", fmt.Sprintf(installHint, p.install))
	}
	if p.argv[0] == "go" {
		p.argv = []string{filepath.Join(r.dir, "tables-go")}
	}
	p.env = append(p.env, r.environment()...)
	out, err := p.run(r.root, strings.ReplaceAll(r.ring.Tables(), "http:", "https:"))
	if err != nil || strings.Contains("\n"+string(out), "\nfail ") || !strings.Contains("\n"+string(out), "\nok ") {
		t.Errorf("%v\n%s", err, out)
	}
}

// cqlsh reads its credentials from a file, and verifies the certificate.
func (r *realRing) cqlsh(t *testing.T) {
	t.Parallel()
	cqlsh := filepath.Join(r.root, ".tools/python/bin/cqlsh")
	if !exists(cqlsh) {
		missing(t, "cqlsh", fmt.Sprintf(installHint, "python"))
	}
	shell := func(password, name string) (string, error) {
		credentials, rc := filepath.Join(r.certs, name+"-credentials"), filepath.Join(r.certs, name+"-cqlshrc")
		for file, text := range map[string]string{credentials: fmt.Sprintf("[plain_text_auth]\nusername = "+
			"%s\npassword = %s\n", superuser, password),
			rc: fmt.Sprintf("[connection]\nssl = true\ntimeout = 20\n[ssl]\ncertfile = %s\nvalidate = "+
				"true\n[authentication]\ncredentials = %s\n", r.ca(), credentials)} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, err := exec.CommandContext(t.Context(), cqlsh, "--cqlshrc", rc, "-e",
			"CREATE KEYSPACE shell WITH replication = "+
				"{'class': 'SimpleStrategy', 'replication_factor': 3}; CREATE TABLE shell.t (k int PRIMARY KEY, v "+
				"text); "+
				"INSERT INTO shell.t (k, v) VALUES (1, 'written'); SELECT v FROM shell.t WHERE k = 1; DROP KEYSPACE "+
				"shell",
			host(r.ring.Servers[1])).CombinedOutput()
		return string(out), err
	}
	if out, err := shell(r.password, "right"); err != nil || !strings.Contains(out, "written") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := shell("wrong", "wrong"); err == nil || !strings.Contains(out, "and/or password are incorrect") {
		t.Errorf("%v\n%s", err, out)
	}
}

// start starts a spare node, and waits until it is a member.
func (r *realRing) start(t *testing.T, flags ...string) {
	t.Helper()
	s := r.ring.Spare[0]
	s.AddFlags(flags...)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	r.ring.Servers, r.ring.Spare = append(r.ring.Servers, s), r.ring.Spare[1:]
	if err := r.ring.WaitAgreed(operationLimit); err != nil {
		t.Fatal(err, s.Log())
	}
}

// forget moves a member that has left to the spare nodes, which are stopped at the end.
func (r *realRing) forget(i int) *process.Server {
	s := r.ring.Servers[i]
	r.ring.Servers = append(r.ring.Servers[:i:i], r.ring.Servers[i+1:]...)
	r.ring.Spare = append(r.ring.Spare, s)
	return s
}

func (r *realRing) join(t *testing.T, _ *workload) { r.start(t) }

// decommission removes the fourth node, which clients no longer use then.
func (r *realRing) decommission(t *testing.T, w *workload) {
	leaver := r.forget(3)
	w.leave(leaver.Address)
	mustCtl(t, leaver, "decommission")
	mustEnd(t, leaver, "node has left the cluster")
	if err := r.ring.WaitAgreed(operationLimit); err != nil {
		t.Fatal(err)
	}
}

// replace kills the third node, and replaces it by a node with another address.
func (r *realRing) replace(t *testing.T, w *workload) {
	dead := r.ring.Servers[2]
	r.killed, r.killedAt = dead.Address, time.Now()
	dead.Kill()
	w.leave(dead.Address)
	r.forget(2)
	time.Sleep(2 * time.Second) // for the failure detector
	r.start(t, "--replace", host(dead))
}

// rotate renews the certificates of all nodes, one after the other, for clients and other nodes.
func (r *realRing) rotate(t *testing.T, _ *workload) {
	for _, s := range r.ring.Servers {
		before := r.serial(t, s)
		r.command(t, "certs", "renew", "--dir", r.certs, filepath.Join(r.certs, filepath.Base(s.Dir)+".crt"))
		mustCtl(t, s, "reloadssl")
		if r.serial(t, s) == before {
			t.Errorf("%s presents the previous certificate", s.Address)
		}
	}
	for _, s := range r.ring.Servers {
		awaitInfo(t, s, "Internode encryption", "all; 3 of 3 connections from and 3 of 3 to other nodes are encrypted")
	}
}

// serial returns the serial number of the certificate that a node presents to clients.
func (r *realRing) serial(t *testing.T, s *process.Server) string {
	t.Helper()
	c, err := tls.Dial("tcp", s.Address, &tls.Config{RootCAs: r.roots})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// recover sets a new password of the superuser over the socket of a node. The previous one is refused.
func (r *realRing) recover(t *testing.T, _ *workload) {
	out := mustCtl(t, r.ring.Servers[0], "reset-superuser", superuser)
	_, password, found := strings.Cut(strings.TrimSpace(out), "has the password ")
	if !found {
		t.Fatal(out)
	}
	last := r.ring.Servers[len(r.ring.Servers)-1].Address
	if c, err := r.dialer(superuser, &r.password)(last); err == nil {
		c.Close()
		t.Error("the previous password is accepted")
	}
	c, err := r.dialer(superuser, &password)(last)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	query(t, c, "LIST ROLES", cqlclient.Options{})
}
