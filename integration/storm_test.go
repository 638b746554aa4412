//go:build integration

package integration

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

const (
	stormConnections = 10_000               // which never authenticate
	stormTime        = 3 * time.Second      // in which they are opened
	stormMemory      = 100 << 20            // bytes that the process may have more than before
	stormRatio       = 2                    // of the 99th percentiles
	stormFloor       = 5 * time.Millisecond // below which percentiles are noise of the scheduler
	stormRounds      = 3

	superuserName = "admin" // the default
)

// TestStormBeforeAuthentication opens 10,000 connections that never authenticate, from 250 addresses: silent ones,
// half-sent headers and bodies, compression bombs, and TLS handshakes that are complete, half or garbage. The latencies
// of a client that logged in before are compared with those while the same connections go to a listener that only
// reads, so that the cost of opening them counts on both sides. A machine with other load gets further rounds.
func TestStormBeforeAuthentication(t *testing.T) {
	raiseFileLimit(t)
	server, password, config := startStormed(t)
	client, err := cqlclient.DialAs(server.Address, 4, superuserName, password)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	query(t, client, "SELECT key FROM system.local", cqlclient.Options{})
	sink := startSink(t)
	for round := 1; ; round++ {
		base := latencies(t, client, func() { storm(sink, config) })
		before, err := server.Usage()
		if err != nil {
			t.Skip(err)
		}
		var most atomic.Int64
		under := latencies(t, client, func() {
			watch, cancel := context.WithCancel(context.Background())
			defer cancel()
			go func() {
				for ; watch.Err() == nil; time.Sleep(50 * time.Millisecond) {
					if u, err := server.Usage(); err == nil {
						most.Store(max(most.Load(), u.RSS))
					}
				}
			}()
			storm(server.Address, config)
		})
		grown := most.Load() - before.RSS
		t.Logf("round %d: p99 %v, %v under the storm; %d MiB more", round, base, under, grown>>20)
		if most.Load() == 0 || grown > stormMemory {
			t.Errorf("the process has %d MiB more than before", grown>>20)
		}
		if under <= stormRatio*max(base, stormFloor) {
			break
		}
		if round == stormRounds {
			t.Errorf("p99 %v under the storm, %v without it", under, base)
			break
		}
	}
	query(t, client, "SELECT key FROM system.local", cqlclient.Options{})
	if _, err := cqlclient.DialAs(server.Address, 5, superuserName, password); err != nil {
		t.Errorf("no client can log in after the storm: %v", err)
	}
}

// raiseFileLimit raises the soft limit of open files to the hard one. It skips the test if that is too low.
func raiseFileLimit(t *testing.T) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Max < stormConnections+2000 {
		t.Skipf("at most %d files may be open", limit.Max)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
}

// startStormed starts a node with authentication and optional TLS. It returns the generated password of its superuser,
// and the configuration of TLS clients.
func startStormed(t *testing.T) (s *process.Server, password string, config *tls.Config) {
	t.Helper()
	binary, dir := cqld(t)
	dir = filepath.Join(dir, t.Name())
	ring, err := process.NewRing(binary, dir, process.Options{Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	s = ring.Servers[0]
	certificates, err := process.NewCertificates(filepath.Join(dir, "certs"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := certificates.Issue(s); err != nil {
		t.Fatal(err)
	}
	pem := filepath.Join(dir, "certs", filepath.Base(s.Dir)+".pem")
	if err := s.Configure("authenticator: PasswordAuthenticator", "client_encryption_options:", "  enabled: true",
		"  optional: true",
		"  certificate: "+pem, "  private_key: "+pem); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ring.Stop)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	for late := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if files, _ := filepath.Glob(filepath.Join(s.Dir, "*", "superuser-password")); len(files) == 1 {
			b, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			password = strings.TrimSpace(string(b))
			c, err := cqlclient.DialAs(s.Address, 4, superuserName, password)
			if err == nil {
				c.Close()
				//nolint:gosec // the storm does not care who answers
				return s, password, &tls.Config{InsecureSkipVerify: true}
			}
		}
		if time.Now().After(late) {
			t.Fatalf("no client can log in\n%s", s.Log())
		}
	}
}

// startSink starts a listener that reads everything and responds with one byte. It returns the address.
func startSink(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.Map
	t.Cleanup(func() {
		l.Close()
		open.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open.Store(c, nil)
			time.AfterFunc(2*time.Second, func() { c.Close() })
			go func() {
				defer open.Delete(c)
				defer c.Close()
				b := make([]byte, 1024)
				for answered := false; ; answered = true {
					if _, err := c.Read(b); err != nil {
						return
					}
					if !answered {
						_, _ = c.Write([]byte{0}) // clients that wait for an answer go on
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// latencies sends requests while f runs, and returns the 99th percentile of their durations.
func latencies(t *testing.T, c *cqlclient.Conn, f func()) time.Duration {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	var took []time.Duration
	for {
		began := time.Now()
		query(t, c, "SELECT key FROM system.local", cqlclient.Options{})
		took = append(took, time.Since(began))
		select {
		case <-done:
			slices.Sort(took)
			return took[len(took)*99/100]
		case <-time.After(500 * time.Microsecond):
		}
	}
}

// storm opens the connections at a constant rate, and closes them at the end.
func storm(address string, config *tls.Config) {
	var all sync.WaitGroup
	slots := make(chan struct{}, 256) // connections being opened
	ended := make(chan struct{})
	began := time.Now()
	for i := range stormConnections {
		if wait := time.Until(began.Add(stormTime * time.Duration(i) / stormConnections)); wait > 0 {
			time.Sleep(wait)
		}
		slots <- struct{}{}
		all.Go(func() {
			c := attack(address, i, config)
			<-slots
			if c == nil {
				return
			}
			<-ended
			c.Close()
		})
	}
	close(ended)
	all.Wait()
}

// attack opens the i-th connection. It returns nil if it is closed already.
func attack(address string, i int, config *tls.Config) net.Conn {
	from := netip.AddrFrom4([4]byte{127, 1, byte(i % 5), byte(1 + i%250)})
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), Timeout: 5 * time.Second}
	c, err := d.Dial("tcp", address)
	if err != nil {
		return nil
	}
	c.SetDeadline(time.Now().Add(5 * time.Second))
	write := func(b []byte) { _, _ = c.Write(b) } // the server may have closed the connection
	switch i % 10 {
	case 0, 1, 2, 3: // silent
	case 4:
		write([]byte{4, 0, 0}) // half a header
	case 5: // half a body
		write(append(header(4, 0, 1, 16<<10), make([]byte, 8<<10)...))
	case 6, 7: // compression bombs
		write(startup("lz4"))
		_, _ = c.Read(make([]byte, 256)) // AUTHENTICATE
		bomb := make([]byte, 16000)
		binary.BigEndian.PutUint32(bomb, []uint32{0x7fffffff, 16 << 20, 3 << 20, 0xffffffff}[rand.IntN(4)])
		write(append(header(4, 1, 0x0f, len(bomb)), bomb...))
	case 8: // garbage that begins as a TLS record
		write(append([]byte{22, 3, 1, 0x40, 0}, make([]byte, 4096)...))
	case 9:
		if i%100 == 9 { // a complete handshake costs the storm as much as the server
			secure := tls.Client(c, config)
			_ = secure.Handshake() // the sink does not answer
			return secure
		}
		write([]byte{22, 3, 1})
	}
	return c
}

// header returns the header of a request of protocol v4.
func header(version, flags, opcode byte, length int) []byte {
	return binary.BigEndian.AppendUint32([]byte{version, flags, 0, 1, opcode}, uint32(length))
}

// startup returns a STARTUP message with a compression.
func startup(compression string) []byte {
	body := []byte{0, 2}
	for _, s := range []string{"CQL_VERSION", "3.0.0", "COMPRESSION", compression} {
		body = append(binary.BigEndian.AppendUint16(body, uint16(len(s))), s...)
	}
	return append(header(4, 0, 1, len(body)), body...)
}
