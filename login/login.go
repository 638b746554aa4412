package login

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"

	"cqld/internal/env"
	"cqld/server"
)

// Role contains the properties of a role that a login needs.
type Role struct {
	Hash  string // bcrypt hash of the password; "" if the role has none
	Login bool   // the role may log in
}

// Options configure an Authenticator. Lookup and Clock are required; so is Random, whose bytes must not be known to
// clients.
type Options struct {
	// Lookup returns the role with that name from the current metadata, or false. It is called concurrently and must
	// not block.
	Lookup func(role string) (Role, bool)
	// Access returns the error of statements of the role from the address, or nil if the role has access from there
	// and in this node's data center. It must not block. nil means that all roles have access.
	Access func(role string, client netip.Addr) error
	// OnEvent is called for each attempt that has ended, in the goroutine of the connection. It must not block. nil
	// means that events are not reported.
	OnEvent func(Event)
	Clock   env.Clock
	// Random is a source of cryptographic randomness. It is read once, by New.
	Random io.Reader
	Limits Limits
	Logger *slog.Logger // nil means slog.Default()
}

// Authenticator implements server.Authenticator. It is safe for concurrent use. It owns no goroutines, so it has no
// Close.
type Authenticator struct {
	options  Options
	limits   Limits
	key      [sha256.Size]byte
	hashers  *hashers
	compare  comparison
	counters counters
	logs     logs

	mu struct {
		sync.Mutex
		remembered *table[string, remembered] // correct credentials by role
		rejected   *table[digest, time.Duration]
		running    map[digest]*verification
		addresses  *backoff[netip.Addr]
		roles      *backoff[digest]
		pairs      *backoff[pair]
	}
}

// digest is an HMAC under the key of the Authenticator.
type digest [sha256.Size]byte

// remembered are the correct credentials of a role. The plain password is not stored: digest covers the role, its
// hash and the password.
type remembered struct {
	digest  digest
	expires time.Duration
}

// pair is an address that has guessed passwords of a role.
type pair struct {
	address netip.Addr
	role    digest
}

// verification is a running verification, for which several connections may wait. The leading connection writes valid
// and err before it closes done.
type verification struct {
	done  chan struct{}
	valid bool  // set when done is closed, if err is nil
	err   error // why there is no result
}

// New returns an Authenticator. It fails only if the source of randomness does.
func New(o Options) (*Authenticator, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	l := o.Limits.withDefaults()
	a := &Authenticator{options: o, limits: l, hashers: newHashers(l, o.Clock), compare: bcrypt.CompareHashAndPassword}
	if _, err := io.ReadFull(o.Random, a.key[:]); err != nil {
		return nil, fmt.Errorf("login: create the key for remembered credentials: %w", err)
	}
	a.mu.remembered = newTable[string, remembered](l.RememberedMax)
	a.mu.rejected = newTable[digest, time.Duration](l.RejectedMax)
	a.mu.running = map[digest]*verification{}
	a.mu.addresses = newBackoff[netip.Addr](addressPolicy(), l.TrackedMax)
	a.mu.roles = newBackoff[digest](rolePolicy(), l.TrackedMax)
	a.mu.pairs = newBackoff[pair](pairPolicy(), l.TrackedMax)
	return a, nil
}

// Class implements server.Authenticator.
func (*Authenticator) Class() string { return "org.apache.cassandra.auth.PasswordAuthenticator" }

// Begin implements server.Authenticator.
func (a *Authenticator) Begin(client netip.AddrPort) server.Exchange { return &exchange{a, client} }

// Check implements server.Authenticator. It is called for every change of roles, and does not verify the password
// again.
func (a *Authenticator) Check(user string, client netip.AddrPort) server.Standing {
	role, ok := a.options.Lookup(user)
	if !ok || !role.Login {
		return server.Standing{Ended: true}
	}
	if a.options.Access != nil {
		return server.Standing{Refused: a.options.Access(user, client.Addr())}
	}
	return server.Standing{}
}

// exchange is the authentication of one client, which takes one token.
type exchange struct {
	*Authenticator
	client netip.AddrPort
}

// Evaluate implements server.Exchange. The exchange is done after one token: PLAIN has no challenges.
func (e *exchange) Evaluate(ctx context.Context, token []byte) (user string, done bool, challenge []byte, err error) {
	credentials, err := ParsePlain(token)
	if err != nil {
		e.report(e.client, "", Failure, Malformed)
		return "", false, nil, err
	}
	if len(credentials.Password) > passwordBytesMax {
		e.report(e.client, credentials.Role, Failure, Malformed)
		return "", false, nil, errLongPassword()
	}
	kind, reason, err := e.authenticate(ctx, e.client.Addr(), credentials)
	e.report(e.client, credentials.Role, kind, reason)
	if err != nil {
		return "", false, nil, err
	}
	return credentials.Role, true, nil, nil
}

// authenticate checks credentials. The error is for the client; it does not depend on whether the role exists. It
// checks LOGIN and access only after the password, so that they reveal nothing to guesses.
func (a *Authenticator) authenticate(ctx context.Context, client netip.Addr, c Credentials) (Kind, Reason, error) {
	role, exists := a.options.Lookup(c.Role)
	hash, flaw := role.Hash, WrongPassword
	switch {
	case !exists:
		hash, flaw = "", UnknownRole
	case hash == "":
		flaw = NoPassword
	case !usable(hash, a.limits.CostMax):
		hash, flaw = "", BadHash
	}
	valid, err := a.check(ctx, client, c, hash)
	switch {
	case err != nil:
		return Failure, reasonOf(err), err
	case !valid:
		return Failure, flaw, incorrect(c.Role)
	case !role.Login:
		return Unauthorized, NoLogin, &server.BadCredentials{Message: c.Role + " is not permitted to log in"}
	}
	if a.options.Access != nil && a.options.Access(c.Role, client) != nil {
		return Unauthorized, AccessDenied, nil // as in Cassandra, its statements are refused
	}
	return Success, NoReason, nil
}

// errLongPassword is the error for a password longer than bcrypt's limit: bcrypt ignores the rest, so any suffix
// would be accepted. The hash of a longer password, made by Cassandra, is the hash of its first bytes.
func errLongPassword() error {
	return &server.BadCredentials{Message: fmt.Sprintf("The password has more than %d bytes, and bcrypt ignores the "+
		"rest: "+
		"log in with the first %[1]d bytes, and set a shorter password", passwordBytesMax)}
}

// incorrect returns Cassandra's error for wrong credentials. Each malformed byte of the name becomes one U+FFFD.
func incorrect(role string) error {
	return &server.BadCredentials{Message: "Provided username " + string([]rune(role)) +
		" and/or password are incorrect"}
}

// backedOff is the error for guesses that are rejected after repeated failures.
type backedOff struct{ server.BadCredentials }

// Unwrap makes the server answer with the error code of wrong credentials.
func (b *backedOff) Unwrap() error { return &b.BadCredentials }

func refuseFor(wait time.Duration) error {
	return &backedOff{server.BadCredentials{Message: fmt.Sprintf("Too many failed attempts to log in; try again in %v",
		wait.Round(time.Millisecond))}}
}

// reasonOf returns the reason for which credentials were not verified.
func reasonOf(err error) Reason {
	var refused *backedOff
	var overloaded *server.AuthenticationOverloaded
	switch {
	case errors.As(err, &refused):
		return BackedOff
	case errors.As(err, &overloaded):
		return Overload
	default:
		return Canceled
	}
}

// check reports whether a password has the hash. It uses remembered results, and joins or starts a verification
// otherwise. The loop ends when this connection leads itself, or ctx ends.
func (a *Authenticator) check(ctx context.Context, client netip.Addr, c Credentials, hash string) (valid bool,
	err error) {
	sum, who := a.digest(c.Role, hash, string(c.Password)), a.digest(c.Role)
	for {
		v, leads, valid, err := a.begin(client, c.Role, who, sum)
		if v == nil {
			return valid, err
		}
		if leads {
			a.lead(ctx, v, client, c, hash, sum, who)
		}
		select {
		case <-v.done:
		case <-ctx.Done():
			return false, late(ctx)
		}
		if v.err == nil || leads {
			return v.valid, v.err
		}
		// The leading connection has ended, or its address was rejected. Retry for this connection.
	}
}

// begin returns the remembered result for credentials, an error if guesses are refused, or the verification to wait
// for. If leads is true, the caller must run it. The pair's back-off comes before the remembered credentials:
// otherwise an address could test passwords against the remembered credentials without a limit.
func (a *Authenticator) begin(client netip.Addr, role string, who, sum digest) (v *verification, leads, valid bool,
	err error) {
	now := a.options.Clock.Monotonic()
	a.mu.Lock()
	defer a.mu.Unlock()
	if wait := a.mu.pairs.wait(pair{client, who}, now); wait > 0 {
		return nil, false, false, refuseFor(wait)
	}
	if r, ok := a.mu.remembered.get(role); ok && now < r.expires && hmac.Equal(r.digest[:], sum[:]) {
		a.counters.remembered.Add(1)
		a.mu.pairs.forget(pair{client, who})
		return nil, false, true, nil
	}
	if until, ok := a.mu.rejected.get(sum); ok && now < until {
		return nil, false, false, nil
	}
	if wait := max(a.mu.addresses.wait(client, now), a.mu.roles.wait(who, now)); wait > 0 {
		a.mu.pairs.failed(pair{client, who}, now) // it has been compared with what is remembered
		return nil, false, false, refuseFor(wait)
	}
	if v := a.mu.running[sum]; v != nil {
		return v, false, false, nil
	}
	v = &verification{done: make(chan struct{})}
	a.mu.running[sum] = v
	return v, true, false, nil
}

// lead runs a verification and records its result. After a panic of bcrypt, the initial error remains, and the
// waiting connections retry.
func (a *Authenticator) lead(ctx context.Context, v *verification, client netip.Addr, c Credentials, hash string, sum,
	who digest) {
	v.err = errors.New("login: the verification panicked")
	defer func() {
		a.mu.Lock()
		delete(a.mu.running, sum)
		if v.err == nil {
			a.record(v.valid, client, c.Role, who, sum)
		}
		a.mu.Unlock()
		close(v.done)
	}()
	waiting := &applicant{role: who, client: client, rounds: roundsOf(hash, a.limits.Cost)}
	v.err = a.hashers.run(ctx, waiting, func() {
		a.counters.verified.Add(1)
		v.valid = verify(a.compare, hash, c.Password, a.limits.Cost)
	})
}

// record remembers the result of a verification. The caller holds the mutex. A success does not clear the failures of
// the address or the role, because a client with one valid account could otherwise guess passwords of others.
func (a *Authenticator) record(valid bool, client netip.Addr, role string, who, sum digest) {
	now, key := a.options.Clock.Monotonic(), pair{client, who}
	if valid {
		a.mu.remembered.put(role, remembered{sum, now + a.limits.RememberFor})
		a.mu.pairs.forget(key)
		return
	}
	a.mu.rejected.put(sum, now+a.limits.RejectFor)
	a.mu.addresses.failed(client, now)
	a.mu.roles.failed(who, now)
	a.mu.pairs.failed(key, now)
}

// digest returns the HMAC of a list of strings. Lengths precede the strings, so that ("ab", "c") and ("a", "bc")
// differ.
func (a *Authenticator) digest(parts ...string) (d digest) {
	h := hmac.New(sha256.New, a.key[:])
	var length [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(p)))
		h.Write(length[:])
		io.WriteString(h, p) //nolint:errcheck // a hash does not fail
	}
	h.Sum(d[:0])
	return d
}
