//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

const (
	// hostileFor is the duration of TestHostile, unless CQLD_HOSTILE sets it.
	hostileFor = 20 * time.Second
	// hostileMemory is the memory of the node's cgroup.
	hostileMemory = 1 << 30
	// hostileWait bounds the wait for one answer, as a driver does. A connection whose request took longer is replaced.
	hostileWait = 20 * time.Second
	// hostileStop bounds how long the node takes to end after SIGTERM, with the requests of the test in progress.
	hostileStop = 20 * time.Second
)

// TestHostile lets an ordinary role send generated statements, functions and frames to a node with 1 GiB of memory,
// default options and authentication: random statements on objects of all kinds, statements in which one part repeats
// up to 100,000 times, functions in three languages with damaged and expensive sources, large values, replies that are
// not read, damaged frames, compression bombs and wrong passwords. The node must stay alive within its memory, serve
// another role within a second, and end when it is asked to.
func TestHostile(t *testing.T) {
	lasts := hostileFor
	if v := os.Getenv("CQLD_HOSTILE"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil {
			t.Fatal(err)
		}
		lasts = d
	}
	h := startHostile(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	attacks := h.attacks()
	h.ring.survives(t, "hostile role", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, lasts)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() { h.reports(ctx, t, attacks) })
		for i, attack := range attacks {
			all.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(i)))
				for ctx.Err() == nil {
					attack.run(ctx, r, &attack.count)
				}
			})
		}
		all.Wait()
		return nil
	})
	for name, n := range attempts(attacks) {
		t.Logf("%s: %d", name, n)
		if n == 0 {
			t.Errorf("%s: nothing was sent", name)
		}
	}
	stops(t, h.ring.Servers[0])
}

// hostile is a node with authentication, a role that attacks it, and one that is served.
type hostile struct {
	ring    *memoryRing
	address string
}

// reports logs once a minute what was attempted and what memory the node has, so that a long run can be judged before
// it ends.
func (h *hostile) reports(ctx context.Context, t *testing.T, attacks []*hostileAttack) {
	t.Helper()
	began := time.Now()
	for rest(ctx, time.Minute); ctx.Err() == nil; rest(ctx, time.Minute) {
		u, err := h.ring.groups[0].Usage()
		if err != nil {
			t.Error(err)
			return
		}
		t.Logf("%v: %d MiB of processes, peak %d MiB with the page cache, %v, attempts %v",
			time.Since(began).Round(time.Second),
			u.Anonymous>>20, u.Peak>>20, h.ring.probing.Load(), attempts(attacks))
	}
}

// attempts returns the number of attempts by the name of the attack.
func attempts(attacks []*hostileAttack) map[string]int64 {
	n := map[string]int64{}
	for _, a := range attacks {
		n[a.name] += a.count.Load()
	}
	return n
}

// hostileAttack is one kind of attempts, which one goroutine makes.
type hostileAttack struct {
	name  string
	count atomic.Int64
	run   func(ctx context.Context, r *rand.Rand, count *atomic.Int64)
}

const hostilePassword = "ordinary"

// startHostile starts the node, with the roles mallory, who owns the keyspace h, and victim.
func startHostile(t *testing.T) *hostile {
	t.Helper()
	binary, dir := cqld(t)
	ring, err := process.NewRing(binary, filepath.Join(dir, t.Name()), process.Options{Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	s := ring.Servers[0]
	if err := s.Configure("authenticator: PasswordAuthenticator", "authorizer: CassandraAuthorizer",
		"user_defined_functions_enabled: true"); err != nil {
		t.Fatal(err)
	}
	g, err := process.NewMemoryGroup("hostile", hostileMemory)
	if err != nil {
		missing(t, "a memory cgroup", err.Error())
	}
	t.Cleanup(func() {
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	})
	s.RunIn(g)
	t.Cleanup(ring.Stop)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	admin := firstSuperuser(t, s)
	defer admin.Close()
	run(t, admin, probeTable(1)...)
	run(t, admin, "CREATE ROLE mallory WITH LOGIN = true AND PASSWORD = '"+hostilePassword+"'",
		"CREATE ROLE victim WITH LOGIN = true AND PASSWORD = '"+hostilePassword+"'",
		"CREATE KEYSPACE h WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"GRANT ALL PERMISSIONS ON KEYSPACE h TO mallory",
		"GRANT ALL PERMISSIONS ON ALL FUNCTIONS IN KEYSPACE h TO mallory",
		"GRANT SELECT ON m.probe TO victim")
	h := &hostile{address: s.Address}
	h.ring = &memoryRing{Ring: ring, groups: []*process.MemoryGroup{g}, user: "victim", password: hostilePassword}
	h.ring.startIdle(t, binary, dir)
	return h
}

// firstSuperuser logs in with the generated password of the first superuser.
func firstSuperuser(t *testing.T, s *process.Server) *cqlclient.Conn {
	t.Helper()
	for late := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if files, _ := filepath.Glob(filepath.Join(s.Dir, "*", "superuser-password")); len(files) == 1 {
			b, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			if c, err := cqlclient.DialAs(s.Address, 4, superuserName, strings.TrimSpace(string(b))); err == nil {
				return c
			}
		}
		if time.Now().After(late) {
			t.Fatalf("no client can log in\n%s", s.Log())
		}
	}
}

// stops sends SIGTERM, and checks that the process ends in time.
func stops(t *testing.T, s *process.Server) {
	t.Helper()
	if !s.Terminate(hostileStop) {
		t.Errorf("the node has not ended %v after SIGTERM\n%s", hostileStop, s.Log())
	}
}

// attacks returns the attacks, the more frequent ones several times.
func (h *hostile) attacks() []*hostileAttack {
	return []*hostileAttack{
		{name: "statements", run: h.statements},
		{name: "statements", run: h.statements},
		{name: "statements", run: h.statements},
		{name: "repetitions", run: h.repetitions},
		{name: "repetitions", run: h.repetitions},
		{name: "functions", run: h.functions},
		{name: "functions", run: h.functions},
		{name: "large values", run: h.largeValues},
		{name: "large values", run: h.largeValues},
		{name: "unread replies", run: h.unreadReplies},
		{name: "damaged frames", run: h.damagedFrames},
		{name: "damaged frames", run: h.damagedFrames},
		{name: "compression bombs", run: h.compressionBombs},
		{name: "wrong passwords", run: h.wrongPasswords},
	}
}

// session calls f with a connection of mallory until f returns an error of the connection or ctx ends.
func (h *hostile) session(ctx context.Context, f func(c *cqlclient.Conn) error) {
	c, err := cqlclient.DialAs(h.address, 4, "mallory", hostilePassword)
	if err != nil {
		rest(ctx, 100*time.Millisecond)
		return
	}
	defer c.Close()
	c.Timeout = hostileWait
	for ctx.Err() == nil {
		if err := f(c); err != nil {
			return
		}
	}
}

// attempt sends a statement. Only an error of the connection is returned.
func attempt(c *cqlclient.Conn, count *atomic.Int64, text string, o cqlclient.Options) error {
	count.Add(1)
	_, err := c.Query(text, o)
	return err
}

// rest waits.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// statements sends generated statements on the objects of one table.
func (h *hostile) statements(ctx context.Context, r *rand.Rand, count *atomic.Int64) {
	s := newObjectScript(r.Uint64N(1<<40), "h")
	h.session(ctx, func(c *cqlclient.Conn) error {
		if err := attempt(c, count, "USE h", cqlclient.Options{}); err != nil {
			return err
		}
		for _, text := range s.definitions {
			if err := attempt(c, count, text, cqlclient.Options{}); err != nil {
				return err
			}
		}
		for _, x := range s.steps {
			o := cqlclient.Options{PageSize: r.IntN(3) * 50, Tracing: r.IntN(50) == 0}
			if err := attempt(c, count, x.Literal(), o); err != nil || ctx.Err() != nil {
				return errors.Join(err, ctx.Err())
			}
		}
		for _, text := range s.drops {
			if err := attempt(c, count, text, cqlclient.Options{}); err != nil {
				return err
			}
		}
		return errScriptEnded
	})
}

var errScriptEnded = errors.New("all statements were sent")

// repetitions sends statements in which one part repeats.
func (h *hostile) repetitions(ctx context.Context, r *rand.Rand, count *atomic.Int64) {
	h.session(ctx, func(c *cqlclient.Conn) error {
		for _, text := range []string{"CREATE TABLE IF NOT EXISTS h.r (k int, c int, v int, l list<int>, m map<int, " +
			"text>, PRIMARY KEY (k, c))",
			repeated(r)} {
			if err := attempt(c, count, text, cqlclient.Options{}); err != nil {
				return err
			}
		}
		return nil
	})
}

// repeated returns a statement with 1 to 100,000 repetitions of a part, up to 8 MB.
func repeated(r *rand.Rand) string {
	n := 1
	for range r.IntN(6) {
		n *= 10
	}
	list := func(part, separator string) string {
		return strings.TrimSuffix(strings.Repeat(part+separator, min(n, 8<<20/(len(part)+1))), separator)
	}
	numbered := func(format, separator string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = fmt.Sprintf(format, i)
		}
		return strings.Join(parts, separator)
	}
	nested := func(open, middle, end string) string {
		return strings.Repeat(open, n) + middle + strings.Repeat(end, n)
	}
	forms := []func() string{
		func() string { return "SELECT " + list("v", " + ") + " FROM h.r" },
		func() string { return "SELECT " + list("v", ", ") + " FROM h.r" },
		func() string { return "SELECT " + nested("-(", "v", ")") + " FROM h.r" },
		func() string { return "SELECT " + nested("cast(", "v", " AS int)") + " FROM h.r" },
		func() string { return "SELECT " + nested("abs(", "v", ")") + " FROM h.r" },
		func() string { return "SELECT * FROM h.r WHERE k IN (" + numbered("%d", ", ") + ")" },
		func() string { return "SELECT * FROM h.r WHERE " + list("k = 1", " AND ") },
		func() string { return "SELECT * FROM h.r WHERE " + list("v = 1", " OR ") + " ALLOW FILTERING" },
		func() string { return "INSERT INTO h.r (k, c, l) VALUES (1, 1, [" + numbered("%d", ", ") + "])" },
		func() string { return "INSERT INTO h.r (k, c, m) VALUES (1, 2, {" + numbered("%d: 'x'", ", ") + "})" },
		func() string { return "INSERT INTO h.r (k, c, l) VALUES (1, 3, " + nested("[", "1", "]") + ")" },
		func() string { return "UPDATE h.r SET " + list("v = 1", ", ") + " WHERE k = 1 AND c = 1" },
		func() string { return "UPDATE h.r SET v = 1 WHERE k = 1 AND c = 1 IF " + list("v = 1", " AND ") },
		func() string {
			return "BEGIN UNLOGGED BATCH " + list("INSERT INTO h.r (k, c, v) VALUES (1, 1, 1);", " ") + " APPLY BATCH"
		},
		func() string {
			return "CREATE TABLE IF NOT EXISTS h.w" + fmt.Sprint(r.IntN(5)) + " (k int PRIMARY KEY, " +
				numbered("c%d int", ", ") + ")"
		},
		func() string { return "CREATE TYPE IF NOT EXISTS h.u (" + numbered("f%d int", ", ") + ")" },
		func() string {
			return "CREATE TABLE IF NOT EXISTS h.n (k int PRIMARY KEY, v " + nested("frozen<list<", "int", ">>") + ")"
		},
		func() string { return strings.Repeat("/* comment */ ", n) + "SELECT v FROM h.r" },
		func() string {
			return "SELECT JSON * FROM h.r WHERE k = 1 AND (c, v) IN (" + list("(1, 2)", ", ") + ") ALLOW FILTERING"
		},
		func() string { return "SELECT v FROM h.r WHERE k = " + strings.Repeat("9", n) },
		func() string { return "DROP TABLE IF EXISTS h.w" + fmt.Sprint(r.IntN(5)) },
		func() string { return "TRUNCATE h.r" },
	}
	return forms[r.IntN(len(forms))]()
}

// largeValues writes large cells and collections, and reads them.
func (h *hostile) largeValues(ctx context.Context, r *rand.Rand, count *atomic.Int64) {
	h.session(ctx, func(c *cqlclient.Conn) error {
		if err := attempt(c, count, "CREATE TABLE IF NOT EXISTS h.l (k int, c int, v blob, PRIMARY KEY (k, c))",
			cqlclient.Options{}); err != nil {
			return err
		}
		switch r.IntN(3) {
		case 0:
			v := make([]byte, 1<<(10+r.IntN(13)))
			_, _ = rand.NewChaCha8([32]byte{byte(r.IntN(256))}).Read(v)
			o := cqlclient.Options{Values: []cqlclient.Value{{Bytes: int32Bytes(r.IntN(4))},
				{Bytes: int32Bytes(r.IntN(20))}, {Bytes: v}}}
			return attempt(c, count, "INSERT INTO h.l (k, c, v) VALUES (?, ?, ?)", o)
		case 1:
			return attempt(c, count, "SELECT * FROM h.l WHERE k = "+fmt.Sprint(r.IntN(4)),
				cqlclient.Options{PageSize: r.IntN(2) * 5000})
		default:
			return attempt(c, count, []string{"SELECT * FROM h.l", "SELECT * FROM h.r", "SELECT count(*) FROM h.l",
				"SELECT l FROM h.r WHERE k = 1",
				"SELECT DISTINCT k FROM h.l", "SELECT k, max(c) FROM h.l GROUP BY k"}[r.IntN(6)],
				cqlclient.Options{PageSize: r.IntN(2) * 100})
		}
	})
}

// unreadReplies pipelines reads of large pages on connections whose replies are not read for a while.
func (h *hostile) unreadReplies(ctx context.Context, r *rand.Rand, count *atomic.Int64) {
	c, err := rawLogin(h.address, "")
	if err != nil {
		rest(ctx, 100*time.Millisecond)
		return
	}
	defer c.Close()
	for stream := range 20 {
		count.Add(1)
		body := append(longText("SELECT * FROM h.l WHERE k = "+fmt.Sprint(r.IntN(4))), 0, 1, 0)
		if _, err := c.Write(envelope(opQuery, int16(stream), body)); err != nil {
			return
		}
	}
	rest(ctx, time.Duration(r.IntN(2000))*time.Millisecond)
}

// damagedFrames sends envelopes in which bytes are changed, removed or added, or which end early.
func (h *hostile) damagedFrames(ctx context.Context, r *rand.Rand, count *atomic.Int64) {
	c, err := rawLogin(h.address, "")
	if err != nil {
		rest(ctx, 100*time.Millisecond)
		return
	}
	defer c.Close()
	var discarded atomic.Int64
	go func() {
		n, _ := io.Copy(io.Discard, c)
		discarded.Add(n)
	}()
	for range 1 + r.IntN(50) {
		count.Add(1)
		b := envelope(byte(r.IntN(18)), int16(r.IntN(100)),
			append(longText("SELECT * FROM h.r WHERE k IN (1, 2, 3)"), 0, 1, byte(r.IntN(256))))
		for range r.IntN(4) {
			b[r.IntN(len(b))] ^= byte(1 << r.IntN(8))
		}
		switch r.IntN(8) {
		case 0:
			b = b[:r.IntN(len(b))]
		case 1:
			b = append(b, b[r.IntN(len(b)):]...)
		case 2:
			copy(b[5:], []byte{0, 0xff, 0xff, 0xff}) // 16 MiB that do not come
		}
		if _, err := c.Write(b); err != nil || ctx.Err() != nil {
			return
		}
	}
	rest(ctx, time.Duration(r.IntN(300))*time.Millisecond)
}

// compressionBombs sends small compressed bodies that declare, and contain, megabytes of zeros.
func (h *hostile) compressionBombs(ctx context.Context, r *rand.Rand, count *atomic.Int64) {
	c, err := rawLogin(h.address, "lz4")
	if err != nil {
		rest(ctx, 100*time.Millisecond)
		return
	}
	defer c.Close()
	go func() { _, _ = io.Copy(io.Discard, c) }()
	for range 1 + r.IntN(30) {
		count.Add(1)
		b := envelope(opQuery, int16(r.IntN(100)), lz4Zeros(1<<(20+r.IntN(7))))
		b[1] |= 1 // compressed
		if _, err := c.Write(b); err != nil || ctx.Err() != nil {
			return
		}
	}
	rest(ctx, time.Duration(r.IntN(300))*time.Millisecond)
}

// wrongPasswords logs in with wrong passwords.
func (h *hostile) wrongPasswords(ctx context.Context, r *rand.Rand, count *atomic.Int64) {
	count.Add(1)
	if c, err := cqlclient.DialAs(h.address, 4, []string{"mallory", "victim", "unknown"}[r.IntN(3)],
		fmt.Sprint(r.Uint64())); err == nil {
		c.Close()
	}
	rest(ctx, 20*time.Millisecond)
}

// The opcodes of requests.
const (
	opStartup      = 0x01
	opQuery        = 0x07
	opAuthResponse = 0x0f
)

// rawLogin opens a connection of version 4, as mallory, on which a test writes bytes of its own.
func rawLogin(address, compression string) (net.Conn, error) {
	token := "\x00mallory\x00" + hostilePassword
	login := append(int32Bytes(len(token)), token...)
	return rawConnection(address, compression, envelope(opAuthResponse, 0, login))
}

// rawConnection opens a connection of version 4, sends STARTUP and further requests, and reads their responses.
func rawConnection(address, compression string, further ...[]byte) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", address, hostileWait)
	if err != nil {
		return nil, err
	}
	options := []string{"CQL_VERSION", "3.0.0"}
	if compression != "" {
		options = append(options, "COMPRESSION", compression)
	}
	body := []byte{0, byte(len(options) / 2)}
	for _, s := range options {
		body = append(append(body, 0, byte(len(s))), s...)
	}
	err = c.SetDeadline(time.Now().Add(hostileWait))
	for _, request := range append([][]byte{envelope(opStartup, 0, body)}, further...) {
		if err == nil {
			_, err = c.Write(request)
		}
		if err == nil {
			err = skipEnvelope(c)
		}
	}
	if err == nil {
		err = c.SetDeadline(time.Time{})
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// envelope returns a request of version 4.
func envelope(opcode byte, stream int16, body []byte) []byte {
	b := []byte{4, 0, byte(stream >> 8), byte(stream), opcode}
	return append(append(b, int32Bytes(len(body))...), body...)
}

// longText returns a [long string].
func longText(s string) []byte { return append(int32Bytes(len(s)), s...) }

// skipEnvelope reads one response.
func skipEnvelope(c net.Conn) error {
	var h [9]byte
	if _, err := io.ReadFull(c, h[:]); err != nil {
		return err
	}
	n := int64(h[5])<<24 | int64(h[6])<<16 | int64(h[7])<<8 | int64(h[8])
	_, err := io.CopyN(io.Discard, c, n)
	return err
}

// lz4Zeros returns n zeros as a compressed body of the protocol: the size, and an LZ4 block that repeats one literal.
func lz4Zeros(n int) []byte {
	b := append(int32Bytes(n), 0x1f, 0, 1, 0) // one literal, then a match at offset 1
	for n -= 1 + 4 + 15 + 5; n >= 255; n -= 255 {
		b = append(b, 255)
	}
	b = append(b, byte(n))
	return append(b, 0x50, 0, 0, 0, 0, 0) // a block ends with five literals
}
