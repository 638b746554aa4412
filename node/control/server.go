package control

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"cqld/auth"
	"cqld/internal/guard"
)

// Server executes operations for clients. Handle, HandleLocal and Page fill the maps before the first Serve, and
// nothing writes them later. The server is safe for concurrent use from then on.
type Server struct {
	// log receives a line for each operation.
	log        *slog.Logger
	authorizer auth.Authorizer
	operations map[string]operation
	local      map[string]bool // operations that only the socket accepts
	changing   map[string]bool // operations that change something
	// The maps are written before Serve and only read afterwards, so they need no lock.
	pages map[string]http.Handler
	// Guard recovers from panics of operations. It is set before Serve. nil leaves panics to net/http.
	Guard *guard.Guard
	// Observe, unless nil, is called after each operation, and after each request without the token. It is set before
	// Serve.
	Observe func(Observation)
	// slots bounds the concurrent operations: each one holds an element.
	slots chan struct{}
	// holds bounds the clients that wait for the end of the process in the same way.
	holds chan struct{}
	// serving counts the goroutines that accept connections.
	serving sync.WaitGroup
	closing sync.Mutex    // held by the goroutine that acquires all slots
	grace   time.Duration // closeGrace; tests set another

	mu struct {
		sync.Mutex
		servers []*http.Server
		closed  bool
		reading sync.WaitGroup // pages that are being read; grows only while closed is false
	}
}

// NewServer returns a server that has no operations and does not listen yet. a authorizes each operation and page.
// Clients are anonymous: a client that has the token, or that may open the socket, acts as the operator.
func NewServer(log *slog.Logger, a auth.Authorizer) *Server {
	s := &Server{log: log, authorizer: a, operations: map[string]operation{}, local: map[string]bool{},
		changing: map[string]bool{}, pages: map[string]http.Handler{},
		slots: make(chan struct{}, operationsMax), holds: make(chan struct{}, operationsMax), grace: closeGrace}
	s.Page(processPage, http.HandlerFunc(s.hold))
	return s
}

// Page registers a page that is read by GET, such as /metrics. It is called before Serve.
func (s *Server) Page(path string, h http.Handler) { s.pages[path] = h }

// Serve accepts clients of l in the background. Clients must present the token, unless it is empty: then every client
// that can connect is accepted. It may be called for several listeners. After Close, it closes l at once. The server
// owns l.
func (s *Server) Serve(l net.Listener, token string) {
	// Only headers have a timeout: an operation may run for hours, and its answer is written during that time.
	h := &http.Server{Handler: s.guard(token, l.Addr().Network() == "unix"), ReadHeaderTimeout: headerTimeout,
		MaxHeaderBytes: headerBytesMax,
		ErrorLog:       slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		l.Close()
		return
	}
	s.mu.servers = append(s.mu.servers, h)
	s.serving.Go(func() {
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("control listener failed", "err", err)
		}
	})
}

// Close waits for closeGrace until running operations have responded: the end of a node's own membership stops the node
// while it responds. Then it cancels them and waits for them. It may be called more than once. Afterwards no operation
// runs and no page is read, so the node can release what they use. Only hold continues, and uses nothing.
func (s *Server) Close() {
	s.mu.Lock()
	s.mu.closed = true
	servers := slices.Clone(s.mu.servers)
	s.mu.Unlock()
	grace, cancel := context.WithTimeout(context.Background(), s.grace)
	defer cancel()
	for _, h := range servers {
		// The listeners share one grace period. Close cancels the contexts of the requests that remain.
		_ = h.Shutdown(grace) // Close ends what is left
		h.Close()
	}
	s.serving.Wait()
	s.mu.reading.Wait()
	// Two callers that each acquired a part of the slots would wait for each other forever.
	s.closing.Lock()
	defer s.closing.Unlock()
	// An operation that ignores its context would block here for as long as it runs.
	for range operationsMax { // when all slots are acquired, no operation is running
		s.slots <- struct{}{}
	}
	for range operationsMax {
		<-s.slots
	}
}

// processPage is the page whose response ends with the process.
const processPage = "/process"

// hold sends the headers of a response and keeps its connection open until the client closes it or the process ends,
// also after Close: a node closes its control port first, and drains afterwards. Only the system, which closes the
// connections of a process that ends, can notify a client of this end.
func (s *Server) hold(w http.ResponseWriter, _ *http.Request) {
	select {
	case s.holds <- struct{}{}:
		defer func() { <-s.holds }()
	default:
		http.Error(w, "too many clients wait for the end of the process", http.StatusServiceUnavailable)
		return
	}
	// Shutdown neither closes a connection that the server has given away nor waits for its handler.
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	// The deadline for headers no longer applies. If the client has gone, the next read ends.
	_ = conn.SetDeadline(time.Time{})
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
	_, _ = io.Copy(io.Discard, conn)
}

// guard accepts only requests with the token. local means that they come over the socket. The comparison takes the same
// time for all tokens of the same length. A wrong token is observed, so that the audit log shows attempts to guess it.
func (s *Server) guard(token string, local bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Only the socket has no token: its mode has authorized the client.
		if token != "" {
			given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
				s.observe(Observation{Client: r.RemoteAddr, Err: errToken})
				w.Header().Set("WWW-Authenticate", "Bearer")
				http.Error(w, errToken.Error(), http.StatusUnauthorized)
				return
			}
		}
		s.route(w, r, local)
	})
}

// route answers a page or executes an operation. All checks that answer with an HTTP status precede the first line,
// because the status has been sent afterwards.
func (s *Server) route(w http.ResponseWriter, r *http.Request, local bool) {
	// Pages are authorized like operations, under their own name.
	if page, ok := s.pages[r.URL.Path]; ok && r.Method == http.MethodGet {
		if err := s.authorize(r.Context(), strings.TrimPrefix(r.URL.Path, "/")); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		// The response of hold lasts until the process ends, and Close must not wait for it.
		if r.URL.Path != processPage {
			if !s.beginPage() {
				http.Error(w, "the node is stopping", http.StatusServiceUnavailable)
				return
			}
			defer s.mu.reading.Done()
		}
		page.ServeHTTP(w, r)
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, "/v1/")
	do, known := s.operations[name]
	switch {
	case !ok || !known:
		http.Error(w, "unknown operation "+r.URL.Path, http.StatusNotFound)
		return
	case r.Method != http.MethodPost:
		http.Error(w, "operations require POST", http.StatusMethodNotAllowed)
		return
	}
	select {
	// Operations beyond the bound are refused and not queued: an operator sees at once that the node is busy.
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		http.Error(w, "too many operations in progress", http.StatusServiceUnavailable)
		return
	}
	// The slot is taken before the arguments are read, so it bounds their memory too.
	args, err := io.ReadAll(http.MaxBytesReader(w, r.Body, requestBytesMax))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	// From here on, every outcome is a line.
	a := &answer{w: w, flush: http.NewResponseController(w)}
	w.Header().Set("Content-Type", "application/x-ndjson")
	var result any
	// The refusal is an *Error and not a status, so that it is observed like other refusals.
	if s.local[name] && !local {
		err = &Error{Denied, name + " is accepted only over the socket in the data directory, on the machine of the " +
			"node"}
	} else {
		err = s.authorize(r.Context(), name)
	}
	if err == nil {
		// A panic of one operation must not end the node.
		if panicked := s.Guard.Do("control operation", func() {
			result,
				err = do(r.Context(), args, a.progress)
		}); panicked != nil {
			err = panicked
		}
	}
	// The operation is recorded before the client gets the answer.
	s.report(name, err)
	s.observe(Observation{Name: name, Client: r.RemoteAddr, Args: args, Err: err})
	a.end(result, err)
}

// beginPage reports whether a page may be read. After true, the caller calls reading.Done.
func (s *Server) beginPage() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return false
	}
	s.mu.reading.Add(1)
	return true
}

// authorize returns an *Error unless the client may run an operation or read a page. Operations that change something
// require EXECUTE, others require SELECT. Each operation is an MBean with its name, so Cassandra's permissions on
// MBeans apply to it.
func (s *Server) authorize(ctx context.Context, name string) error {
	need := auth.Requirement{Permission: auth.Select, Resource: auth.MBean(name)}
	if s.changing[name] {
		need.Permission = auth.Execute
	}
	if err := s.authorizer.Authorize(ctx, auth.Principal{}, need); err != nil {
		return &Error{Denied, err.Error()}
	}
	return nil
}

// report logs an operation of an operator. Operations that only read are logged at debug level. Arguments are not
// logged, because they may contain secrets.
func (s *Server) report(name string, err error) {
	level := slog.LevelDebug
	if s.changing[name] {
		level = slog.LevelInfo
	}
	args := []any{"operation", name}
	if err != nil {
		args = append(args, "err", err)
	}
	s.log.Log(context.Background(), level, "operator's command", args...)
}

// answer writes the lines of one answer. Any goroutine of the operation may report progress. Lines are flushed one by
// one, so that progress arrives while the operation runs.
type answer struct {
	mu    sync.Mutex
	w     io.Writer
	flush *http.ResponseController
	last  time.Time
	// ended is set by the last line: a late report of another goroutine must not follow it.
	ended bool
}

// progress writes a progress line, unless the last one was written less than progressEvery ago.
func (a *answer) progress(p Progress) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); !a.ended && (p.Committed || now.Sub(a.last) >= progressEvery) {
		a.last = now
		a.writeLocked(line{Progress: &p})
	}
}

// end writes the last line: the result or, if err is not nil or the result has no JSON form, the error.
func (a *answer) end(result any, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	if err == nil {
		var raw json.RawMessage
		if raw, err = json.Marshal(result); err == nil {
			a.writeLocked(line{Result: raw})
			return
		}
	}
	// errors.As below replaces it if the operation chose a code.
	failure := &Error{Failed, err.Error()}
	if errors.Is(err, context.Canceled) {
		failure.Message = "interrupted"
	}
	errors.As(err, &failure)
	a.writeLocked(line{Error: failure})
}

// writeLocked writes a line. It ignores errors: a client that has disconnected cannot be notified.
func (a *answer) writeLocked(l line) {
	if b, err := json.Marshal(l); err == nil {
		_, _ = a.w.Write(append(b, '\n'))
		_ = a.flush.Flush()
	}
}
