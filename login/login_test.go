package login

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"cqld/internal/await"
	"cqld/internal/testclock"
	"cqld/server"
)

// hash returns the hash of a password with the lowest cost.
func hash(t testing.TB, password string, cost int) string {
	t.Helper()
	b := []byte(password)
	h, err := bcrypt.GenerateFromPassword(b[:min(len(b), 72)], cost)
	if err != nil {
		t.Fatal(err)
	}
	return string(h)
}

// roles is a Lookup whose roles tests change.
type roles struct{ sync.Map }

func (r *roles) lookup(name string) (Role, bool) {
	v, ok := r.Load(name)
	if !ok {
		return Role{}, false
	}
	return v.(Role), true
}

// fixture is an Authenticator with its own clock and roles.
type fixture struct {
	*Authenticator
	t      *testing.T
	clock  *testclock.Clock
	roles  *roles
	events []Event
	log    bytes.Buffer
}

// newFixture returns a fixture with the role ada, whose password is "right".
func newFixture(t *testing.T, limits Limits) *fixture {
	t.Helper()
	f := &fixture{t: t, clock: &testclock.Clock{}, roles: &roles{}}
	if limits.Cost == 0 {
		limits.Cost = bcrypt.MinCost
	}
	f.roles.Store("ada", Role{Hash: hash(t, "right", bcrypt.MinCost), Login: true})
	var err error
	f.Authenticator, err = New(Options{Lookup: f.roles.lookup, Clock: f.clock,
		Random: bytes.NewReader(make([]byte, 64)), Limits: limits,
		Logger: slog.New(slog.NewTextHandler(&f.log, nil)), OnEvent: func(e Event) { f.events = append(f.events, e) }})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func address(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, byte(n >> 8), byte(n)}), 9000)
}

func token(role, password string) []byte { return []byte("\x00" + role + "\x00" + password) }

// try logs in from an address and returns "" or the error.
func (f *fixture) try(client int, role, password string) string {
	f.t.Helper()
	user, done, challenge, err := f.Begin(address(client)).Evaluate(context.Background(), token(role, password))
	if err != nil {
		if user != "" || done || challenge != nil {
			f.t.Errorf("a refused client has user %q, done %v, challenge %q", user, done, challenge)
		}
		return err.Error()
	}
	if user != role || !done || challenge != nil {
		f.t.Errorf("Evaluate returned %q, %v, %q", user, done, challenge)
	}
	return ""
}

// recordedRoles are the roles with which testdata/tokens.txt was recorded.
func recordedRoles(t *testing.T, r *roles) {
	for name, password := range map[string]string{"login_ok": "pw", "login_no": "pw", "login_Müller漢": "pässwörd漢😀",
		"login_long": strings.Repeat("a", 100)} {
		r.Store(name, Role{Hash: hash(t, password, bcrypt.MinCost), Login: name != "login_no"})
	}
	r.Store("login_nopw", Role{Login: true})
}

func TestRecordedTokens(t *testing.T) {
	text, err := os.ReadFile("testdata/tokens.txt")
	if err != nil {
		t.Fatal(err)
	}
	cases := 0
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		cases++
		f := newFixture(t, Limits{})
		recordedRoles(t, f.roles)
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			t.Fatal(line, err)
		}
		sent, _ := strconv.Unquote(quoted)
		want := strings.TrimSpace(line[len(quoted):])
		if code, text, _ := strings.Cut(want, " "); strings.HasPrefix(text, `"`) {
			text, _ = strconv.Unquote(text)
			want = code + " " + text
		}
		got := "AUTH_SUCCESS"
		if _, _, _, err := f.Begin(address(1)).Evaluate(context.Background(), []byte(sent)); err != nil {
			got = "0000 " + err.Error()
			if wrong := (&server.BadCredentials{}); errors.As(err, &wrong) {
				got = "0100 " + err.Error()
			}
		}
		// Cassandra ignores the rest without an error
		if strings.Contains(sent, "login_long") && len(sent) > passwordBytesMax+12 {
			want = "0100 " + errLongPassword().Error()
		}
		if got != want {
			t.Errorf("%s:\n got %q\nwant %q", quoted, got, want)
		}
	}
	if cases < 30 {
		t.Errorf("only %d cases", cases)
	}
}

// Each failure takes the time of one verification with the configured cost, whatever the role.
func TestFailuresTakeTheSameTime(t *testing.T) {
	const cost = 7
	f := newFixture(t, Limits{Cost: cost, CostMax: 9})
	for c := bcrypt.MinCost; c <= cost; c++ {
		f.roles.Store(fmt.Sprint("cost", c), Role{Hash: hash(t, "right", c), Login: true})
	}
	f.roles.Store("nologin", Role{Hash: hash(t, "right", 5)})
	f.roles.Store("nopassword", Role{Login: true})
	f.roles.Store("malformed", Role{Hash: "$2a$xx$", Login: true})
	f.roles.Store("expensive", Role{Hash: string(dummy(10)), Login: true})
	rounds := 0
	f.compare = func(hash, password []byte) error {
		c, err := bcrypt.Cost(hash)
		if err != nil {
			t.Errorf("%q: %v", hash, err)
		}
		rounds += 1 << c
		return bcrypt.CompareHashAndPassword(hash, password)
	}
	for i, role := range []string{"cost4", "cost5", "cost6", "cost7", "nologin", "nopassword", "malformed",
		"expensive", "unknown"} {
		rounds = 0
		if got, want := f.try(i, role, "wrong"), "Provided username "+role+" and/or password are "+
			"incorrect"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if rounds != 1<<cost {
			t.Errorf("%s: %d rounds, want %d", role, rounds, 1<<cost)
		}
	}
}

func TestDummyMatchesNothing(t *testing.T) {
	for _, password := range []string{"", "right", "abcdefghijklmnopqrstuvwxyzABCDE"} {
		if err := bcrypt.CompareHashAndPassword(dummy(bcrypt.MinCost), []byte(password)); !errors.Is(err,
			bcrypt.ErrMismatchedHashAndPassword) {
			t.Errorf("%q: %v", password, err)
		}
	}
}

func TestCorrectCredentialsAreRemembered(t *testing.T) {
	f := newFixture(t, Limits{RememberFor: time.Minute})
	expect := func(verified int64) {
		t.Helper()
		if s := f.Stats(); s.Verified != verified {
			t.Errorf("%d verifications, want %d", s.Verified, verified)
		}
	}
	for i := range 5 {
		if err := f.try(i, "ada", "right"); err != "" {
			t.Error(err)
		}
	}
	expect(1)
	f.clock.Advance(time.Minute)
	f.try(1, "ada", "right")
	expect(2)
	// A changed password, or only a new hash of the same password, invalidates cached verifications.
	f.roles.Store("ada", Role{Hash: hash(t, "new", bcrypt.MinCost), Login: true})
	if err := f.try(1, "ada", "right"); err != "Provided username ada and/or password are incorrect" {
		t.Errorf("the old password: %q", err)
	}
	expect(3)
	if err := f.try(1, "ada", "new"); err != "" {
		t.Error(err)
	}
	expect(4)
	f.roles.Store("ada", Role{Hash: hash(t, "new", bcrypt.MinCost)})
	if err := f.try(1, "ada", "new"); err != "ada is not permitted to log in" {
		t.Errorf("without LOGIN: %q", err)
	}
	f.roles.Delete("ada")
	if err := f.try(1, "ada", "new"); err != "Provided username ada and/or password are incorrect" {
		t.Errorf("dropped: %q", err)
	}
}

func TestWrongCredentialsAreVerifiedOnce(t *testing.T) {
	f := newFixture(t, Limits{RejectFor: time.Minute})
	for range 50 { // more attempts than the back-off allows guesses
		for _, role := range []string{"ada", "unknown"} {
			if err := f.try(1, role, "wrong"); err != "Provided username "+role+" and/or password are incorrect" {
				t.Fatal(err)
			}
		}
	}
	if s := f.Stats(); s.Verified != 2 || s.Failures != 100 {
		t.Errorf("%+v", s)
	}
	// The role is created with that password.
	f.roles.Store("unknown", Role{Hash: hash(t, "wrong", bcrypt.MinCost), Login: true})
	if err := f.try(1, "unknown", "wrong"); err != "" {
		t.Error(err)
	}
}

// fails makes comparisons fail without computing a hash, unless the password is "right".
func (f *fixture) fails() {
	f.compare = func(_, password []byte) error {
		if string(password) == "right" {
			return nil
		}
		return bcrypt.ErrMismatchedHashAndPassword
	}
}

func TestGuessesOfOneAddressAreBackedOff(t *testing.T) {
	f := newFixture(t, Limits{})
	f.fails()
	backedOff := 0
	for i := range 100 { // each guesses another role
		if err := f.try(1, fmt.Sprint("role", i), "guess"); strings.HasPrefix(err,
			"Too many failed attempts to log in; try again in ") {
			backedOff++
		}
	}
	if backedOff != 89 || f.Stats().Verified != 11 {
		t.Errorf("%d guesses are refused, want 89; %+v", backedOff, f.Stats())
	}
	if err := f.try(1, "ada", "right"); err == "" {
		t.Error("the address can log in during the back-off")
	}
	if err := f.try(2, "ada", "right"); err != "" {
		t.Error("another address is refused:", err)
	}
	if err := f.try(1, "ada", "right"); err != "" {
		t.Error("a remembered credential is refused:", err)
	}
	f.clock.Advance(200 * time.Millisecond)
	f.try(1, "x", "guess")
	f.clock.Advance(200 * time.Millisecond)
	if err := f.try(1, "x", "guess2"); !strings.HasPrefix(err, "Too many") {
		t.Error("the back-off does not grow:", err)
	}
	f.clock.Advance(10 * time.Minute)
	for i := range 10 {
		if err := f.try(1, "y", fmt.Sprint("guess", i)); !strings.HasPrefix(err, "Provided") {
			t.Error("the failures are not forgotten:", err)
		}
	}
}

func TestGuessesOfOneRoleAreBackedOff(t *testing.T) {
	for _, role := range []string{"ada", "unknown"} {
		f := newFixture(t, Limits{})
		f.fails()
		f.roles.Store("eve", Role{Hash: hash(t, "right", bcrypt.MinCost), Login: true})
		f.try(1, "ada", "right")
		for i := range 11 {
			if err := f.try(100+i, role, fmt.Sprint("guess", i)); !strings.HasPrefix(err, "Provided") {
				t.Error(err)
			}
		}
		if err := f.try(2, role, "another"); err != "Too many failed attempts to log in; try again in 200ms" {
			t.Error(err)
		}
		if err := f.try(2, "eve", "right"); err != "" {
			t.Error("another role is refused:", err)
		}
		if err := f.try(3, "ada", "right"); err != "" {
			t.Error("a remembered credential is refused because of guesses from other addresses:", err)
		}
	}
}

// An address that is backed off must not use remembered credentials to test many guesses.
func TestGuessesAgainstRememberedCredentialsAreBounded(t *testing.T) {
	f := newFixture(t, Limits{})
	f.fails()
	f.try(1, "ada", "right")
	compared := 0
	for i := range 10_000 { // within ten seconds
		before := f.Stats().Reasons[BackedOff.String()]
		if err := f.try(2, "ada", fmt.Sprint("guess", i)); err == "" {
			t.Fatal("a guess succeeded")
		}
		wait := f.mu.pairs.wait(pair{address(2).Addr(), f.digest("ada")}, f.clock.Monotonic())
		if wait == 0 || f.Stats().Reasons[BackedOff.String()] == before {
			compared++
		}
		f.clock.Advance(time.Millisecond)
	}
	if compared < 10 || compared > 100 {
		t.Errorf("%d guesses were compared in ten seconds", compared)
	}
}

func TestBackoffProperty(t *testing.T) {
	p := policy{free: 3, first: time.Second, most: 10 * time.Second, calm: time.Minute}
	var got []time.Duration
	b := newBackoff[int](p, 2)
	for range 10 {
		b.failed(1, 0)
		got = append(got, b.wait(1, 0))
	}
	const s = time.Second
	if want := fmt.Sprint([]time.Duration{0, 0, 0, s, 2 * s, 4 * s, 8 * s, 10 * s, 10 * s,
		10 * s}); fmt.Sprint(got) != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if w := b.wait(1, 4*s); w != 6*s {
		t.Errorf("wait %v", w)
	}
	b.failed(1, 3*time.Minute) // 10 failures are one after three minutes of calm
	if w := b.wait(1, 3*time.Minute); w != 0 {
		t.Errorf("wait %v", w)
	}
	for k := range 100 {
		b.failed(k, 4*time.Minute)
	}
	if n := len(b.table.entries); n != 2 || b.table.order.Len() != 2 {
		t.Errorf("%d keys are tracked", n)
	}
}

// blocked makes comparisons wait until release is called, and counts those that have begun.
func (f *fixture) blocked() (begun *atomic.Int64, release func()) {
	begun, gate := new(atomic.Int64), make(chan struct{})
	f.compare = func(_, password []byte) error {
		begun.Add(1)
		<-gate
		if string(password) == "right" {
			return nil
		}
		return bcrypt.ErrMismatchedHashAndPassword
	}
	return begun, sync.OnceFunc(func() { close(gate) })
}

func TestConnectionsShareOneVerification(t *testing.T) {
	f := newFixture(t, Limits{HashersMax: 1, QueueMax: 1})
	f.options.OnEvent = nil
	begun, release := f.blocked()
	defer release()
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Go(func() {
			if _, _, _, err := f.Begin(address(i)).Evaluate(t.Context(), token("ada", "right")); err != nil {
				t.Error(err)
			}
		})
	}
	await.Until(t, "a verification", func() bool { return begun.Load() == 1 })
	release()
	wg.Wait()
	if s := f.Stats(); s.Verified != 1 || s.Successes != 500 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}

func TestQueueIsBounded(t *testing.T) {
	f := newFixture(t, Limits{HashersMax: 1, QueueMax: 4, QueuePerAddressMax: 2})
	f.options.OnEvent = nil
	begun, release := f.blocked()
	defer release()
	var wg sync.WaitGroup
	start := func(ctx context.Context, client int, password string, want error) {
		wg.Go(func() {
			_, _, _, err := f.Begin(address(client)).Evaluate(ctx, token("ada", password))
			if fmt.Sprintf("%T", err) != fmt.Sprintf("%T", want) {
				t.Errorf("client %d: %T %v, want %T", client, err, err, want)
			}
		})
	}
	wrong, overloaded := &server.BadCredentials{}, &server.AuthenticationOverloaded{}
	waiting := func(n int64) {
		t.Helper()
		await.Until(t, fmt.Sprint(n, " wait"), func() bool { return f.Stats().Waiting == n })
	}
	start(t.Context(), 1, "a", wrong)
	await.Until(t, "one runs", func() bool { return begun.Load() == 1 })
	start(t.Context(), 1, "b", wrong)
	waiting(1)
	start(t.Context(), 1, "c", overloaded) // makes room for another address below
	waiting(2)
	start(t.Context(), 1, "d", overloaded) // the third of its address
	ctx, cancel := context.WithCancel(t.Context())
	canceled := context.Canceled
	start(ctx, 2, "e", canceled)
	start(t.Context(), 3, "right", nil)
	waiting(4)
	start(t.Context(), 4, "f", wrong) // the fifth
	await.Until(t, "one has made room", func() bool { return f.Stats().Reasons[Overload.String()] == 2 })
	start(t.Context(), 4, "g", overloaded) // its address would have as many as the others
	// The client whose connection ends leaves the queue, and a client that shares its verification continues.
	start(t.Context(), 5, "e", wrong)
	await.Until(t, "three are refused", func() bool { return f.Stats().Reasons[Overload.String()] == 3 })
	cancel()
	await.Until(t, "one is canceled", func() bool { return f.Stats().Reasons[Canceled.String()] == 1 })
	waiting(4)
	late, end := context.WithTimeout(t.Context(), time.Millisecond)
	defer end()
	start(late, 6, "right", overloaded) // joins, and its time ends
	await.Until(t, "four are refused", func() bool { return f.Stats().Reasons[Overload.String()] == 4 })
	release()
	wg.Wait()
	if s := f.Stats(); s.Waiting != 0 || s.Verified != 5 || f.hashers.mu.running != 0 || len(f.mu.running) != 0 {
		t.Errorf("%+v, %d run", s, f.hashers.mu.running)
	}
}

func TestPanicEndsTheVerification(t *testing.T) {
	f := newFixture(t, Limits{HashersMax: 1})
	f.compare = func([]byte, []byte) error { panic("x") }
	func() {
		defer func() { recover() }()
		f.try(1, "ada", "right")
		t.Error("no panic")
	}()
	f.compare = bcrypt.CompareHashAndPassword
	if err := f.try(1, "ada", "right"); err != "" {
		t.Error(err)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	f := newFixture(t, Limits{RememberedMax: 3, RejectedMax: 4, TrackedMax: 5})
	f.fails()
	for i := range 50 {
		role := fmt.Sprint("role", i)
		f.roles.Store(role, Role{Hash: string(dummy(4)), Login: true})
		if err := f.try(i, role, "right"); err != "" {
			t.Error(err)
		}
		f.try(i, role, "wrong")
	}
	for name, got := range map[string][2]int{"remembered": {len(f.mu.remembered.entries), 3},
		"rejected":  {len(f.mu.rejected.entries), 4},
		"addresses": {len(f.mu.addresses.table.entries), 5}, "roles": {len(f.mu.roles.table.entries), 5},
		"pairs": {len(f.mu.pairs.table.entries), 5}} {
		if got[0] != got[1] {
			t.Errorf("%s: %d entries, want %d", name, got[0], got[1])
		}
	}
}

func TestEvents(t *testing.T) {
	f := newFixture(t, Limits{CostMax: 5})
	f.roles.Store("nologin", Role{Hash: hash(t, "right", 4)})
	f.roles.Store("nopassword", Role{Login: true})
	f.roles.Store("expensive", Role{Hash: string(dummy(6)), Login: true})
	f.roles.Store("far", Role{Hash: hash(t, "right", 4), Login: true})
	f.options.Access = func(role string, _ netip.Addr) error {
		if role == "far" {
			return errors.New("You do not have access from this IP 127.0.0.1")
		}
		return nil
	}
	long := "a\x00b"
	f.try(1, "ada", "right")
	f.try(2, "ada", "wrong")
	f.try(3, "unknown\n\x1b[31m", "x")
	f.try(4, long, "x")
	f.try(5, "nologin", "right")
	f.try(6, "far", "right")
	f.try(7, "nopassword", "x")
	f.try(8, "expensive", "x")
	f.try(9, strings.Repeat("é", 8000), "x")
	var got []string
	for _, e := range f.events {
		if !e.Time.Equal(f.clock.Now()) {
			t.Errorf("time %v", e.Time)
		}
		got = append(got, fmt.Sprintf("%q %v %v %v", e.Role, e.Address.Addr(), e.Kind, e.Reason))
	}
	want := []string{
		`"ada" 127.0.0.1 success `,
		`"ada" 127.0.0.2 failure wrong password`,
		`"unknown\n\x1b[31m" 127.0.0.3 failure unknown role`,
		`"" 127.0.0.4 failure malformed credentials`,
		`"nologin" 127.0.0.5 unauthorized role cannot log in`,
		`"far" 127.0.0.6 unauthorized access denied`,
		`"nopassword" 127.0.0.7 failure no password`,
		`"expensive" 127.0.0.8 failure unusable hash`,
		`"` + strings.Repeat("é", 64) + `" 127.0.0.9 failure unknown role`,
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
	s := f.Stats()
	if s.Successes != 1 || s.Failures != 6 || s.Unauthorized != 2 || s.Reasons["unknown role"] != 2 {
		t.Errorf("%+v", s)
	}
}

func TestLogsAreBoundedAndEscaped(t *testing.T) {
	f := newFixture(t, Limits{})
	f.fails()
	f.try(1, "x\n\x1b[31m\u202e\"y", "secret-password")
	for i := range 100 {
		f.try(i, "other", "secret-password")
	}
	f.clock.Advance(time.Second)
	f.try(1, "last", "secret-password")
	text := f.log.String()
	if n := strings.Count(text, "client login refused"); n != 2 || !strings.Contains(text, "skipped=100") {
		t.Errorf("%d messages:\n%s", n, text)
	}
	for _, bad := range []string{"\x1b", "\u202e", "secret-password"} {
		if strings.Contains(text, bad) {
			t.Errorf("the log contains %q", bad)
		}
	}
	if got := escape("x\n\x1b[31m\u202e\"y漢"); got != `x\n\x1b[31m\u202e"y漢` {
		t.Errorf("got %s", got)
	}
}

func TestCheck(t *testing.T) {
	f := newFixture(t, Limits{})
	if s := f.Check("ada", address(1)); s.Ended || s.Refused != nil {
		t.Errorf("%+v", s)
	}
	refused := errors.New("no access")
	f.options.Access = func(string, netip.Addr) error { return refused }
	if s := f.Check("ada", address(1)); s.Ended || s.Refused != refused {
		t.Errorf("%+v", s)
	}
	f.roles.Store("ada", Role{Hash: "x"})
	if !f.Check("ada", address(1)).Ended || !f.Check("unknown", address(1)).Ended {
		t.Error("connections of roles without LOGIN continue")
	}
}

func TestNewNeedsRandomness(t *testing.T) {
	if _, err := New(Options{Random: bytes.NewReader(nil)}); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// FuzzParsePlain compares ParsePlain with a parser that splits the token at all its NULs.
func FuzzParsePlain(f *testing.F) {
	for _, s := range []string{"", "\x00", "\x00a\x00b", "z\x00a\x00b", "\x00\x00\x00", "a\x00b", "\x00\xff\x00\xfe",
		"\x00a\x00b\x00c"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, token []byte) {
		c, err := ParsePlain(token)
		parts := strings.Split(string(token), "\x00")
		n := len(parts)
		wellFormed := n == 2 || n == 3
		ok := n == 3 && parts[1] != "" && parts[2] != ""
		if wrong := (&server.BadCredentials{}); err != nil && !errors.As(err, &wrong) {
			t.Errorf("%T %v", err, err)
		}
		switch {
		case ok != (err == nil):
			t.Errorf("%q: %v", token, err)
		case ok && (c.Role != parts[1] || string(c.Password) != parts[2]):
			t.Errorf("%q: %+v", token, c)
		case n > 3 && !strings.HasPrefix(err.Error(), "Credential format error"):
			t.Errorf("%q: %v", token, err)
		case wellFormed && !ok && (parts[n-1] == "") != (err.Error() == "Password must not be null"):
			t.Errorf("%q: %v", token, err)
		}
	})
}

func BenchmarkLogin(b *testing.B) {
	for _, cost := range []int{10} {
		h := hash(b, "right", cost)
		start := func(b *testing.B) *Authenticator {
			a, err := New(Options{Lookup: func(string) (Role, bool) { return Role{Hash: h, Login: true}, true },
				Clock:  &testclock.Clock{},
				Random: bytes.NewReader(make([]byte, 64)), Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			return a
		}
		login := func(b *testing.B, a *Authenticator, role string) {
			if _, _, _, err := a.Begin(address(1)).Evaluate(context.Background(), token(role, "right")); err != nil {
				b.Fatal(err)
			}
		}
		b.Run("remembered", func(b *testing.B) {
			a := start(b)
			login(b, a, "ada")
			b.ReportAllocs()
			for b.Loop() {
				login(b, a, "ada")
			}
		})
		b.Run("first", func(b *testing.B) {
			a, i := start(b), 0
			for b.Loop() {
				i++
				login(b, a, strconv.Itoa(i))
			}
		})
	}
}
