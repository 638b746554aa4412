package messaging

import (
	"errors"
	"sync"
	"time"
)

// keepalive detects that the peer of a link has become silent, or does not read: its host has lost power, packets to it
// are dropped, or its process does not run. TCP alone notices that after many minutes, or never.
//
// Each Limits.KeepaliveEvery, the link is checked. The node that opened the connection sends a ping when no bytes were
// received or written since the previous check, so both nodes receive bytes regularly. After Limits.KeepaliveMissed
// checks in a row without progress, the link is closed. Checks are counted instead of time: a process that was stopped
// for a minute must not conclude that its peers were silent for a minute.
type keepalive struct {
	mu                sync.Mutex
	timer             *time.Timer
	stopped           bool
	received, written int64 // at the previous check
	silent, stuck     int   // checks without progress
}

// The causes for which keepalive closes a link.
var (
	errSilent = errors.New("messaging: the peer sends nothing and does not answer pings")
	errStuck  = errors.New("messaging: the peer does not read")
)

// start begins the checks of l. A keepalive that was stopped before does not start.
func (k *keepalive) start(l *link) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.stopped {
		k.timer = time.AfterFunc(l.t.limits.KeepaliveEvery, func() { k.check(l) })
	}
}

// stop ends the checks.
func (k *keepalive) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	if k.timer != nil {
		k.timer.Stop()
	}
}

// check compares the progress of l with its progress at the previous check.
func (k *keepalive) check(l *link) {
	quiet, err := k.compare(l)
	switch {
	case err != nil:
		l.t.log.Warn("internode connection closed", "peer", l.conn.RemoteAddr(), "err", err)
		l.close()
		return
	// Only one side sends pings, and the pong is progress for both.
	case quiet && l.bound == nil:
		_ = l.send(&envelope{kind: ping}) // a full queue has bytes that the peer does not read
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.stopped {
		k.timer.Reset(l.t.limits.KeepaliveEvery)
	}
}

// compare counts a check. quiet reports that no bytes were received, or none written, since the previous one.
func (k *keepalive) compare(l *link) (quiet bool, err error) {
	received, written, waiting := l.received.Load(), l.written.Load(), l.waiting()
	k.mu.Lock()
	defer k.mu.Unlock()
	quiet = received == k.received || written == k.written
	// Both counters are incremented first, and reset below if there was progress.
	k.silent, k.stuck = k.silent+1, k.stuck+1
	if received != k.received {
		k.silent = 0
	}
	// A link without bytes to write is not stuck.
	if written != k.written || !waiting {
		k.stuck = 0
	}
	k.received, k.written = received, written
	switch {
	case k.silent > l.t.limits.KeepaliveMissed:
		err = errSilent
	case k.stuck > l.t.limits.KeepaliveMissed:
		err = errStuck
	}
	return quiet, err
}
