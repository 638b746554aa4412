// Package health serves the probes of a supervisor such as Kubernetes or a load balancer over HTTP, without
// authentication. The answers say only whether the node works and whether it serves clients.
//
//	GET /livez   200 unless the process should be restarted
//	GET /readyz  200 while the node serves clients; the lines after "ok" name what is wrong nevertheless
//
// Other answers are 503 with the reason in one line. The server accepts at most connectionsMax connections: a new one
// ends the oldest, so that clients that hold connections open do not prevent probes.
package health

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Checks decide the answers. nil means that the answer is 200. They must not block, and are safe for concurrent use.
type Checks struct {
	Live, Ready func() error
	// Details, which may be nil, returns what an operator should know although the node serves clients, one line each.
	Details func() []string
}

const (
	// connectionsMax bounds the connections, each of about 10 KiB. Probes take one at a time.
	connectionsMax = 64
	// requestTimeout bounds each of reading a request and writing its answer; both are less than 1 KiB.
	requestTimeout = 2 * time.Second
	// headerBytesMax bounds the header of a request.
	headerBytesMax = 4 << 10
)

// Server answers probes until Close.
type Server struct {
	http *http.Server
	done chan struct{}
}

// Serve answers probes of l in the background. It owns l. The handlers run concurrently, at most connectionsMax of
// them.
func Serve(l net.Listener, c Checks, log *slog.Logger) *Server {
	// Other paths are 404 and other methods 405, by the multiplexer.
	mux := http.NewServeMux()
	mux.Handle("GET /livez", answer(c.Live, nil))
	mux.Handle("GET /readyz", answer(c.Ready, c.Details))
	s := &Server{done: make(chan struct{}), http: &http.Server{Handler: mux, ReadTimeout: requestTimeout,
		WriteTimeout:   requestTimeout,
		MaxHeaderBytes: headerBytesMax, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}}
	s.http.SetKeepAlivesEnabled(false) // a probe is one request
	go func() {
		defer close(s.done)
		if err := s.http.Serve(newest(l)); !errors.Is(err, http.ErrServerClosed) {
			log.Error("health listener failed", "err", err)
		}
	}()
	return s
}

// Close ends all connections and waits for the server. Probes in flight are cut: a supervisor treats a closed
// connection like a node that stops. It may be called once.
func (s *Server) Close() {
	_ = s.http.Close() // the listener is closed even after an error
	<-s.done
}

// details is nil for a probe without details. Only checks that fail have a body that explains them; a success begins
// with "ok" for people.
func answer(check func() error, details func() []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		// A proxy between the supervisor and the node must not answer from its memory.
		w.Header().Set("Cache-Control", "no-store")
		if err := check(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprintln(w, err) // a client that has disconnected needs no answer
			return
		}
		_, _ = io.WriteString(w, "ok\n")
		if details == nil {
			return
		}
		for _, line := range details() {
			_, _ = fmt.Fprintln(w, line)
		}
	})
}
