package bucket

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// served answers requests with a function.
type served func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (s served) RoundTrip(r *http.Request) (*http.Response, error) { return s(r) }

// slow is a content with a byte after each pause.
type slow struct {
	ctx   context.Context
	left  int
	pause time.Duration
}

// Read implements io.Reader.
func (s *slow) Read(b []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	timer := time.NewTimer(s.pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ctx.Done():
		return 0, context.Cause(s.ctx)
	}
	s.left--
	b[0] = 'x'
	return 1, nil
}

// Close implements io.Closer.
func (*slow) Close() error { return nil }

// TestOnlyStalledRequestsEnd sends and receives contents that are slow for an hour, and ones that stop.
func TestOnlyStalledRequestsEnd(t *testing.T) {
	const steady, stalled = 20 * time.Second, 2 * stallMax
	for what, c := range map[string]struct {
		request, answer, body time.Duration // pauses
		fails                 bool
	}{
		"slow":                   {steady, steady, steady, false},
		"no answer":              {steady, stalled, steady, true},
		"content does not end":   {steady, steady, stalled, true},
		"request is not read":    {steady, 1000 * time.Hour, 0, true},
		"request of a slow disk": {steady, 0, 0, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := watched{served(func(r *http.Request) (*http.Response, error) {
				if _, err := io.Copy(io.Discard, r.Body); err != nil {
					return nil, err
				}
				timer := time.NewTimer(c.answer)
				defer timer.Stop()
				select {
				case <-timer.C:
				case <-r.Context().Done():
					return nil, r.Context().Err()
				}
				return &http.Response{StatusCode: 200, Body: &slow{r.Context(), 180, c.body}}, nil
			})}
			r, err := http.NewRequestWithContext(t.Context(), "PUT", "http://store/x",
				&slow{t.Context(), 180, c.request})
			if err != nil {
				t.Fatal(err)
			}
			answer, err := w.RoundTrip(r)
			if err == nil {
				_, err = io.Copy(io.Discard, answer.Body)
				err = errors.Join(err, answer.Body.Close())
			}
			if (err != nil) != c.fails || err != nil && !errors.Is(err, errStalled) {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
}

// TestLostRequestsDoNotShowTheirURL has a URL that is a signature.
func TestLostRequestsDoNotShowTheirURL(t *testing.T) {
	err := Lost(&url.Error{Op: "Get", URL: "https://store/x?sig=s3cret", Err: io.ErrUnexpectedEOF})
	if strings.Contains(err.Error(), "s3cret") || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}
