package messaging

import (
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"cqld/ring"
)

// refusals counts refused messages and handshakes by reason, and logs some of them: peers that send many must not fill
// the disk. It is safe for concurrent use.
type refusals struct {
	log   *slog.Logger
	event string // the message in the log

	mu sync.Mutex
	// count includes the refusals that were not logged.
	count    uint64
	byReason map[string]uint64 // of handshakes
	silent   uint64            // refusals since the last log message
	logged   time.Time
}

// newRefusals returns counters that log to log.
func newRefusals(log *slog.Logger, event string) *refusals {
	return &refusals{log: log, event: event, byReason: map[string]uint64{}}
}

// note counts a refusal, and logs it unless one was logged less than refusalsEvery ago.
func (r *refusals) note(what string, from ring.NodeID, err error) {
	r.add(reasonOf(err))
	r.report(what, from, err)
}

// add counts a refusal.
func (r *refusals) add(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	if reason != "" {
		r.byReason[reason]++
	}
}

// report logs a refusal that was counted, unless one was logged less than refusalsEvery ago.
func (r *refusals) report(what string, from ring.NodeID, err error) {
	r.mu.Lock()
	now := time.Now()
	if !r.logged.IsZero() && now.Sub(r.logged) < refusalsEvery {
		// The next logged message contains the number of suppressed ones.
		r.silent++
		r.mu.Unlock()
		return
	}
	silent := r.silent
	r.silent, r.logged = 0, now
	r.mu.Unlock()
	// The message is logged without the lock.
	r.log.Warn(r.event, "what", what, "claimed node", from, "err", err, "reason", reasonOf(err), "not logged", silent)
}

// reasonOf returns the reason of a failed handshake, or "" for other errors.
func reasonOf(err error) string {
	var s *SecurityError
	if errors.As(err, &s) {
		return s.Reason
	}
	return ""
}

// reasons returns the number of failed handshakes by reason.
func (r *refusals) reasons() map[string]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.byReason)
}

// Refused returns how many messages and handshakes of other processes were refused since the transport was made.
func (t *StreamTransport) Refused() uint64 {
	t.refused.mu.Lock()
	defer t.refused.mu.Unlock()
	return t.refused.count
}

// Refusals returns how many connections of peers were refused because of TLS, or the lack of it, by reason.
func (t *StreamTransport) Refusals() map[string]uint64 { return t.refused.reasons() }

// Failures returns how many connections to peers failed because of TLS, or the lack of it, by reason.
func (t *StreamTransport) Failures() map[string]uint64 { return t.failed.reasons() }
