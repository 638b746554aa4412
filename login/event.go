package login

import (
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// Kind is the kind of an Event. The values are indexes of arrays of counters.
type Kind uint8

// The kinds of events.
const (
	// Success means that the client is authenticated.
	Success Kind = iota
	// Failure means that the client is not authenticated: its credentials are wrong or malformed, or were not verified.
	Failure
	// Unauthorized means that the credentials are correct, but the role may not log in.
	Unauthorized
)

// String returns the name of the kind in logs and metrics.
func (k Kind) String() string { return [...]string{"success", "failure", "unauthorized"}[k] }

// Reason is the reason why a login failed. The audit log and the metrics contain it.
type Reason uint8

// The reasons. Events distinguish a wrong password from an unknown role; responses to clients do not.
const (
	NoReason Reason = iota // of Success
	Malformed
	WrongPassword
	UnknownRole
	NoPassword   // the role has no password
	BadHash      // the stored hash is malformed or too expensive
	BackedOff    // refused after repeated failures
	Overload     // too many verifications wait
	Canceled     // the client disconnected or the time to authenticate ended
	NoLogin      // the role has LOGIN = false
	AccessDenied // no access from this address or in this data center
	// The following are reasons of package login/certificate.
	NoCertificate
	NoIdentity      // the certificate contains no identity that the validator accepts
	UnknownIdentity // no role has the identity
	reasons
)

// String returns the reason in words. The names are labels of metrics and must not change.
func (r Reason) String() string {
	return [...]string{"", "malformed credentials", "wrong password", "unknown role", "no password", "unusable hash",
		"back-off after failures",
		"overloaded", "canceled", "role cannot log in", "access denied", "no certificate", "no identity",
		"unknown identity"}[r]
}

// Event is an attempt to log in that has ended. It contains no password and no hash.
type Event struct {
	Role    string // as sent by the client, cut at 128 bytes, valid UTF-8; empty if the credentials are malformed
	Address netip.AddrPort
	Kind    Kind
	Reason  Reason
	Time    time.Time
}

// Stats counts attempts and the work that they caused. All except Waiting never decrease.
type Stats struct {
	Successes    int64
	Failures     int64
	Unauthorized int64
	Reasons      map[string]int64 // number of failed and unauthorized attempts by reason
	Remembered   int64            // successes without a verification
	Verified     int64            // verifications of a password against a hash, including dummies
	Waiting      int64            // verifications that are waiting
}

// counters contains the counters that Stats reports.
type counters struct {
	kinds                [Unauthorized + 1]atomic.Int64
	reasons              [reasons]atomic.Int64
	remembered, verified atomic.Int64
}

// NoStats returns the counts of a node whose clients need not log in: each is zero, with all reasons. Metrics then have
// the same series whether or not clients must log in.
func NoStats() Stats {
	s := Stats{Reasons: map[string]int64{}}
	for r := Malformed; r < reasons; r++ {
		s.Reasons[r.String()] = 0
	}
	return s
}

// Stats returns the counts since the start.
func (a *Authenticator) Stats() Stats {
	c := &a.counters
	s := Stats{Successes: c.kinds[Success].Load(), Failures: c.kinds[Failure].Load(),
		Unauthorized: c.kinds[Unauthorized].Load(),
		Remembered:   c.remembered.Load(), Verified: c.verified.Load(), Waiting: a.hashers.waitingNow(),
		Reasons: map[string]int64{}}
	for r := Malformed; r < reasons; r++ {
		s.Reasons[r.String()] = c.reasons[r].Load()
	}
	return s
}

// Report counts and logs an attempt by other means than a password, and passes it to OnEvent.
func (a *Authenticator) Report(client netip.AddrPort, role string, kind Kind, reason Reason) {
	a.report(client, role, kind, reason)
}

// report counts and logs an event, and passes it on. It is called exactly once for each attempt, in the goroutine of
// the connection.
func (a *Authenticator) report(client netip.AddrPort, role string, kind Kind, reason Reason) {
	a.counters.kinds[kind].Add(1)
	a.counters.reasons[reason].Add(1)
	e := Event{Role: shorten(role), Address: client, Kind: kind, Reason: reason, Time: a.options.Clock.Now()}
	a.logs.log(a.options.Logger, e)
	if a.options.OnEvent != nil {
		a.options.OnEvent(e)
	}
}

// logs bounds the log messages about refused clients: one a second of each kind, with the number of events since the
// last. A client that tries passwords must not be able to fill the disk with log messages.
type logs struct {
	last    [Unauthorized + 1]atomic.Int64 // seconds since 1970
	skipped [Unauthorized + 1]atomic.Int64
}

// Successes are logged at debug level only.
func (l *logs) log(log *slog.Logger, e Event) {
	if e.Kind == Success {
		log.Debug("client logged in", "role", escape(e.Role), "client", e.Address.String())
		return
	}
	if now := e.Time.Unix(); l.last[e.Kind].Swap(now) == now {
		l.skipped[e.Kind].Add(1)
		return
	}
	log.Warn("client login refused", "role", escape(e.Role), "client", e.Address.String(), "kind", e.Kind.String(),
		"reason", e.Reason.String(),
		"skipped", l.skipped[e.Kind].Swap(0))
}

// shorten returns the beginning of a role's name as valid UTF-8. It never cuts within a letter.
func shorten(role string) string {
	if len(role) > shownRoleMax {
		n := shownRoleMax
		for n > 0 && !utf8.RuneStart(role[n]) {
			n--
		}
		role = role[:n]
	}
	return strings.ToValidUTF8(role, "\ufffd")
}

// escape returns a name without control characters and other invisible ones. A name with line breaks could otherwise
// imitate another line of the log.
func escape(role string) string {
	quoted := strconv.QuoteToGraphic(role)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
