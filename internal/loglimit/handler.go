// Package loglimit bounds how often a log message repeats.
//
// A Handler passes on the first records with a message in each period, counts the others, and reports the count when
// the period has ended. So a failure that concerns every request, such as a full disk, does not fill the log, and
// nothing that happened is missing from it:
//
//	level=ERROR msg="storage: write failed" err="no space left on device"                    (5 times)
//	level=ERROR msg="storage: write failed" err="no space left on device" repeated=1240 since=10s
//
// Messages are compared by level and text. Values belong in attributes, because a message that contains them never
// repeats. Records below WARN are passed on: what is logged for each request must be at the level DEBUG.
package loglimit

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// The bounds of a Handler.
const (
	// burst is the number of records with one message in each period: enough to see several causes.
	burst = 5
	// period is the time after which the count of a message is reported, and records are passed on again.
	period = 10 * time.Second
	// messagesMax bounds the messages that are counted at a time: 256 × about 0.5 KiB. Records with further messages
	// are counted as one message.
	messagesMax = 256
)

// Handler is a slog.Handler. It is safe for concurrent use. It owns no goroutine: the count of a message is reported by
// the first record after its period, whatever its message, and by Close.
type Handler struct {
	next  slog.Handler
	state *state // shared by the handlers that With made
}

// state contains the counts, which all handlers derived from one New share.
type state struct {
	now func() time.Time
	mu  sync.Mutex
	// messages contains the messages of the current periods; the zero key counts further messages.
	messages map[key]*message
}

type key struct {
	level slog.Level
	text  string
}

// message is one message in its period.
type message struct {
	began  time.Time
	seen   int
	last   slog.Record  // the last one that was not passed on
	to     slog.Handler // of last
	silent int          // records that were not passed on
}

// New returns a Handler in front of next. now returns the time.
func New(next slog.Handler, now func() time.Time) *Handler {
	return &Handler{next: next, state: &state{now: now, messages: map[key]*message{}}}
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{next: h.next.WithAttrs(attrs), state: h.state}
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{next: h.next.WithGroup(name), state: h.state}
}

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return h.next.Handle(ctx, r)
	}
	now := h.state.now()
	ended, pass := h.state.count(h.next, r, now)
	err := report(ctx, ended, now)
	if !pass {
		return err
	}
	if nextErr := h.next.Handle(ctx, r); nextErr != nil {
		return nextErr
	}
	return err
}

// Close reports the counted messages. The Handler can still be used.
func (h *Handler) Close() error {
	h.state.mu.Lock()
	var all []*message
	for k, m := range h.state.messages {
		delete(h.state.messages, k)
		all = append(all, m)
	}
	h.state.mu.Unlock()
	return report(context.Background(), all, h.state.now())
}

// count counts a record. It returns the messages whose period has ended, and whether the record is passed on.
func (s *state) count(to slog.Handler, r slog.Record, now time.Time) (ended []*message, pass bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, m := range s.messages {
		if now.Sub(m.began) >= period {
			delete(s.messages, k)
			ended = append(ended, m)
		}
	}
	k := key{r.Level, r.Message}
	if s.messages[k] == nil && len(s.messages) >= messagesMax {
		k = key{}
	}
	m := s.messages[k]
	if m == nil {
		m = &message{began: now}
		s.messages[k] = m
	}
	if m.seen++; m.seen <= burst {
		return ended, true
	}
	m.silent++
	m.last, m.to = r.Clone(), to
	return ended, false
}

// report writes how often messages were not passed on, with the attributes of the last record of each.
func report(ctx context.Context, ended []*message, now time.Time) (err error) {
	for _, m := range ended {
		if m.silent == 0 {
			continue
		}
		r := m.last
		r.AddAttrs(slog.Int("repeated", m.silent), slog.Duration("since", now.Sub(m.began).Round(time.Second)))
		if handleErr := m.to.Handle(ctx, r); handleErr != nil {
			err = handleErr
		}
	}
	return err
}
