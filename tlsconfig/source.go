package tlsconfig

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"cqld/internal/env"
	"cqld/internal/guard"
)

// Options configure a Source.
type Options struct {
	// Clock determines whether certificates are valid, and when files are checked.
	Clock env.Clock
	// Logger receives reloads, failures and warnings about expiry. nil means slog.Default().
	Logger *slog.Logger
	// Name is the use of the files in log messages, such as client_encryption_options.
	Name string
	// Poll is how often the files are checked for changes; 0 means 5 seconds.
	Poll time.Duration
	// Guard recovers panics of the goroutine that reloads files. nil means none.
	Guard *guard.Guard
}

// Source holds a certificate with its private key and the trusted authorities, and reads their files again when they
// change. It is safe for concurrent use. It owns one goroutine, from Open to Close.
type Source struct {
	files Files
	// paths are the files that are watched.
	paths   []string
	options Options
	log     *slog.Logger

	// current is never nil after Open. Connections load it without a lock.
	current  atomic.Pointer[material]
	reloads  atomic.Int64
	failures atomic.Int64

	// Only one goroutine at a time reads the files.
	mu sync.Mutex
	// signature is the state of the files when they were read last, whether or not that succeeded.
	signature signature
	// failure is the last failure that was logged, so that it is logged once; empty if there is none.
	failure string
	// retry means that the last reload failed, so that the files are read again although they have not changed.
	retry bool
	// reminded is the monotonic time of the last warning about expiry, if warned.
	reminded time.Duration
	warned   bool

	closing sync.Once
	stop    chan struct{}
	watcher sync.WaitGroup
}

// Open reads the files and begins to watch them until Close. It fails if a file cannot be used: see Files.
func Open(files Files, options Options) (*Source, error) {
	if options.Clock == nil {
		return nil, errors.New("tlsconfig: Options.Clock is not set")
	}
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	if options.Poll == 0 {
		options.Poll = pollInterval
	}
	s := &Source{files: files, paths: files.paths(), options: options, log: options.Logger.With("files", options.Name),
		stop: make(chan struct{})}
	// The signature is taken before the files are read: a change in between is noticed by the next check.
	s.signature = newSignature(s.paths)
	m, err := load(files, options.Clock.Now())
	if err != nil {
		return nil, err
	}
	s.current.Store(m)
	// The operator learns about an expiring certificate at the start, and not only at the first check.
	s.warnExpiry()
	s.watcher.Add(1)
	go s.watch()
	return s, nil
}

// Close stops watching the files. Configurations of the Source remain usable.
func (s *Source) Close() {
	s.closing.Do(func() { close(s.stop) })
	s.watcher.Wait()
}

// watch checks the files regularly.
func (s *Source) watch() {
	defer s.watcher.Done()
	due := make(chan struct{}, 1)
	for {
		// due has room for one value, so the timer never blocks, also after watch has ended.
		timer := s.options.Clock.After(s.options.Poll, func() { due <- struct{}{} })
		select {
		case <-due:
			s.check()
		case <-s.stop:
			timer.Stop()
			return
		}
	}
}

// check reloads the files if one has changed, or if the last reload failed. Files may become usable without a change of
// their own, such as a certificate that was not valid yet.
func (s *Source) check() {
	defer s.options.Guard.Recover("certificate reload", nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := newSignature(s.paths); s.retry || !now.equal(s.signature) {
		_ = s.reloadLocked(now, now.equal(s.signature)) // it has logged the error
	}
	s.warnExpiry()
}

// Reload reads the files now. If it fails, the previous certificates stay in use. It returns the failure, which is also
// logged.
func (s *Source) Reload() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reloadLocked(newSignature(s.paths), true)
}

// reloadLocked reads the files, whose signature was taken before: a change during the read is noticed by the next
// check. A failure is logged and counted once, and only if settled: files that have just changed may not have been
// replaced completely, because a key and its certificate are renamed one after the other.
func (s *Source) reloadLocked(now signature, settled bool) error {
	s.signature = now
	m, err := load(s.files, s.options.Clock.Now())
	if err != nil {
		s.retry = true
		// The failure is not recorded, so that it is logged if it persists at the next check.
		if !settled {
			s.failure = ""
		} else if s.failure != err.Error() {
			s.failures.Add(1)
			s.log.Error("cannot use changed certificate files; the previous ones stay in use", "err", err)
			s.failure = err.Error()
		}
		return fmt.Errorf("reload certificates: %w", err)
	}
	s.retry, s.failure, s.warned = false, "", false
	// Connections from here on use the new material.
	s.current.Store(m)
	s.reloads.Add(1)
	s.log.Info("certificate files reloaded", "expires", m.expiry)
	return nil
}

// warnExpiry logs a certificate or revocation list that expires soon, once a day. Only one goroutine calls it at a
// time.
func (s *Source) warnExpiry() {
	m, now := s.current.Load(), s.options.Clock.Now()
	if s.warned && s.options.Clock.Monotonic()-s.reminded < expiryReminder {
		return
	}
	// Both warnings share the time of the last one; a reload resets it.
	warn := func(level func(string, ...any), message string, at time.Time) {
		level(message, "expires", date(at), "days left", int(at.Sub(now).Hours()/24))
		s.warned, s.reminded = true, s.options.Clock.Monotonic()
	}
	switch left := m.expiry.Sub(now); {
	// There is no certificate.
	case m.expiry.IsZero():
	case left <= 0:
		warn(s.log.Error, "the certificate has expired, and peers refuse it; replace its file", m.expiry)
	case left < expiryNotice:
		warn(s.log.Warn, "the certificate expires soon; replace its file", m.expiry)
	}
	if next := m.revoked.next; !next.IsZero() && next.Before(now) {
		warn(s.log.Warn, "a certificate revocation list is out of date; it stays in use", next)
	}
}

// Stats describe a Source. Failures count each cause once, until a reload succeeds or the cause changes.
type Stats struct {
	// Expiry is zero without a certificate.
	Expiry time.Time
	// RevocationsDue is when the first revocation list is out of date; zero without one.
	RevocationsDue time.Time
	// Reloads and Failures count since Open; reading the files in Open is neither.
	Reloads, Failures int64
}

// Stats returns the current state of the Source.
func (s *Source) Stats() Stats {
	m := s.current.Load()
	return Stats{Expiry: m.expiry, RevocationsDue: m.revoked.next, Reloads: s.reloads.Load(),
		Failures: s.failures.Load()}
}

// Expiry returns when the certificate, or an authority above it, expires. It is zero if there is no certificate.
func (s *Source) Expiry() time.Time { return s.current.Load().expiry }

// HasCertificate reports whether the Source can serve. Clients need no certificate.
func (s *Source) HasCertificate() bool { return s.current.Load().pair != nil }

// HasTrusted reports whether the Source has authorities that can verify clients.
func (s *Source) HasTrusted() bool { return s.current.Load().trusted != nil }
