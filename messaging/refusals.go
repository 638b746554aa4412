package messaging

import (
	"log/slog"
	"sync"
	"time"

	"cqld/ring"
)

// refusals counts refused messages and handshakes, and logs some of them: peers that send many must not fill the
// disk. It is safe for concurrent use.
type refusals struct {
	log *slog.Logger

	mu     sync.Mutex
	count  uint64
	silent uint64 // refusals since the last log message
	logged time.Time
}

// note counts a refusal, and logs it unless one was logged less than refusalsEvery ago.
func (r *refusals) note(what string, from ring.NodeID, err error) {
	r.mu.Lock()
	r.count++
	now := time.Now()
	if !r.logged.IsZero() && now.Sub(r.logged) < refusalsEvery {
		r.silent++
		r.mu.Unlock()
		return
	}
	silent := r.silent
	r.silent, r.logged = 0, now
	r.mu.Unlock()
	r.log.Warn("internode message refused", "what", what, "claimed node", from, "err", err, "not logged", silent)
}

// Refused returns how many messages and handshakes of other processes were refused since the transport was made.
func (t *StreamTransport) Refused() uint64 {
	t.refused.mu.Lock()
	defer t.refused.mu.Unlock()
	return t.refused.count
}
