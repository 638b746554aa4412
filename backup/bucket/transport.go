package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// errStalled is the error of a request whose service has neither read nor sent a byte for stallMax.
var errStalled = errors.New("the object store does not answer")

// Transport returns the transport for the libraries of the services. It verifies certificates with the system's
// authorities, uses the proxy of the environment, and ends requests that stall.
func Transport() http.RoundTripper {
	return watched{&http.Transport{Proxy: http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: connectMax}).DialContext,
		TLSHandshakeTimeout: connectMax, IdleConnTimeout: idleMax, MaxIdleConnsPerHost: 16,
		// Objects are compared as they are stored.
		DisableCompression: true}}
}

// watched ends requests that stall. Large objects take long, so it bounds the time without progress, and not the whole.
type watched struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (w watched) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	dog := &watchdog{time.AfterFunc(stallMax, func() { cancel(errStalled) })}
	end := func() { dog.timer.Stop(); cancel(nil) }
	// A round tripper must not modify the request of its caller.
	r = r.Clone(ctx)
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &body{r.Body, dog, func() {}}
	}
	answer, err := w.next.RoundTrip(r)
	if err != nil {
		// The transport says only that the context was cancelled.
		if errors.Is(context.Cause(ctx), errStalled) {
			err = errStalled
		}
		end()
		return nil, err
	}
	answer.Body = &body{answer.Body, dog, end}
	return answer, nil
}

// watchdog is a timer that progress resets.
type watchdog struct{ timer *time.Timer }

// body is a body whose reading is progress.
type body struct {
	io.ReadCloser
	dog *watchdog
	end func()
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	// The reader of an answer may have paused on purpose.
	b.dog.timer.Reset(stallMax)
	n, err := b.ReadCloser.Read(p)
	b.dog.timer.Reset(stallMax)
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}

// Lost returns the error of a request without an answer. It removes the URL, whose parameters may be a signature.
func Lost(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Errorf("the object store cannot be reached: %w", err)
}
