package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cqld/integration/cqlclient"
)

// Server is one server process. The zero value with Address and PID is a server that runs already: it can be measured,
// and Kill and Stop leave it alone.
type Server struct {
	Address string // of its CQL port, host:port
	Tables  string // of its Azure Tables port, http://host:port; empty means none
	// Created by Start.
	Dir string // directory of its data and its log
	// Of the last start. Servers that run already have it without being started here.
	PID int

	// The command of the next start. The words of the command, changed by AddFlags, UseBinary and others between
	// starts.
	argv    []string
	options []string // lines of the configuration file of a cqld node
	stop    []string // a command that stops it; nil means SIGTERM
	// Closed when the process has ended; nil before the first start.
	done chan struct{}

	status *status // of a cqld node

	enter func(func() error) error // calls a function in the network namespace of the server; nil means this one
	dial  Dialer
}

// Dialer connects to the CQL port of a server. The Ring closes the connection.
type Dialer func(address string) (*cqlclient.Conn, error)

// plain connects without encryption and credentials.
func plain(address string) (*cqlclient.Conn, error) { return cqlclient.Dial(address, 4) }

// Root returns the directory of the repository. It works in every directory of the module, and not in modules of their
// own such as integration/drivers.
func Root() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("process: go env: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// Build builds cqld into dir and returns the binary's path. It builds as for releases, without cgo, unless the flags
// for go build contain -race, which needs cgo. A build takes seconds with a warm cache of the go command, so tests
// build once for each package.
func Build(ctx context.Context, dir string, flags ...string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "cqld")
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"build"}, flags,
		[]string{"-o", binary, "./cmd/cqld"})...)
	cmd.Dir = root
	// The environment may say otherwise.
	cgo := "CGO_ENABLED=0"
	if slices.Contains(flags, "-race") {
		cgo = "CGO_ENABLED=1"
	}
	cmd.Env = append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("process: go build ./cmd/cqld: %w\n%s", err, out)
	}
	return binary, nil
}

// Start executes the server's command; its output is written to Dir/out.log. Start returns when the process exists, not
// when it answers: WaitAnswer and WaitAgreed wait for that. It must not be called while the process runs.
func (s *Server) Start() error {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return err
	}
	// Appended: a test that restarts a node needs the messages of all of its processes.
	log, err := os.OpenFile(filepath.Join(s.Dir, "out.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	// The process has its own descriptor.
	defer log.Close()
	cmd := exec.Command(s.argv[0], s.argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	started := func() {}
	// A node of cqld. It gets another status pipe, because the old one ends with its process.
	if s.status != nil {
		bound(cmd)
		if started, err = s.status.attach(cmd); err != nil {
			return err
		}
	}
	if s.enter != nil {
		err = s.enter(cmd.Start)
	} else {
		err = cmd.Start()
	}
	// Also after a failure, to close this end of the pipe. It also starts the goroutine that reads the status.
	started()
	if err != nil {
		return fmt.Errorf("process: start %s: %w", s.argv[0], err)
	}
	s.PID, s.done = cmd.Process.Pid, make(chan struct{})
	// The goroutine ends with the process, which Stop and Kill end.
	go func() {
		// Wait reaps the process. Its exit status is not used.
		cmd.Wait()
		close(s.done)
	}()
	return nil
}

// AddFlags adds flags to the next start.
func (s *Server) AddFlags(flags ...string) { s.argv = append(s.argv, flags...) }

// Kill kills the process, like a crash. It waits a second for the end, which SIGKILL makes certain, except for a
// process in an uninterruptible wait.
func (s *Server) Kill() { s.end(syscall.SIGKILL, time.Second) }

// Stop stops the process gracefully, and kills it if it does not end in time. It waits 15 s. A server that runs under a
// stop command, such as Cassandra, is stopped by that command alone.
func (s *Server) Stop() {
	if s.stop != nil {
		exec.Command(s.stop[0], s.stop[1:]...).Run()
		return
	}
	if !s.end(syscall.SIGTERM, 15*time.Second) {
		s.Kill()
	}
}

// Terminate sends SIGTERM, and reports whether the process has ended in time. It does not kill it. The process may
// still be running afterwards; Running says so.
func (s *Server) Terminate(wait time.Duration) bool { return s.end(syscall.SIGTERM, wait) }

// end sends a signal, and reports whether the process ended in time. A server that was never started has ended.
func (s *Server) end(sig syscall.Signal, wait time.Duration) bool {
	if s.done == nil {
		return true
	}
	// An error means that the process has ended already.
	syscall.Kill(s.PID, sig)
	select {
	case <-s.done:
		return true
	case <-time.After(wait):
		return false
	}
}

// Running reports whether the process has not ended. A server that was not started here counts as not running.
func (s *Server) Running() bool {
	if s.done == nil {
		return false
	}
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// Log returns the end of the server's output. The end is 4,000 bytes, enough for the reason of a failed start.
func (s *Server) Log() string {
	b, err := os.ReadFile(filepath.Join(s.Dir, "out.log"))
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-4000):])
}

// WaitAnswer waits for the first answer to a CQL statement. It polls every 5 ms, because benchmarks measure the time
// until the first answer.
func (s *Server) WaitAnswer(limit time.Duration) error {
	var last error
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		// The command of a server with a stop command may end while the server runs.
		if s.stop == nil && !s.Running() {
			return fmt.Errorf("process: %s ended:\n%s", s.Address, s.Log())
		}
		if last = Ask(s.Address, "SELECT key FROM system.local"); last == nil {
			return nil
		}
	}
	return fmt.Errorf("process: no answer from %s within %v: %w\n%s", s.Address, limit, last, s.Log())
}

// Ask sends statements over a new connection. It uses v4, ONE and no paging, and stops at the first error.
func Ask(address string, statements ...string) error {
	c, err := cqlclient.Dial(address, 4)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, s := range statements {
		a, err := c.Query(s, cqlclient.Options{})
		if err != nil {
			return err
		}
		if a.Err != nil {
			return fmt.Errorf("%s: %w", s, a.Err)
		}
	}
	return nil
}

// Usage is the resource usage of a process. RSS is the resident set at the time of the call, not its maximum.
type Usage struct {
	CPU time.Duration // user and system
	RSS int64         // bytes
}

// ErrNoUsage means that this operating system does not show the usage of other processes.
var ErrNoUsage = errors.New("process: no /proc to read CPU time and memory from")

// clockTick is the unit of CPU times in /proc; it is 1/100 s on all Linux ports of Go. It is USER_HZ, which is not the
// kernel's HZ.
const clockTick = 10 * time.Millisecond

// Usage returns the CPU time and memory of the process. A process that has ended has none, which is ErrNoUsage as well.
func (s *Server) Usage() (Usage, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.PID))
	if err != nil {
		return Usage{}, errors.Join(ErrNoUsage, err)
	}
	// The name in parentheses may contain blanks; the numbers follow it.
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 22 {
		return Usage{}, ErrNoUsage
	}
	// utime, stime and rss are the fields 14, 15 and 24 of proc(5); the first two fields are cut off.
	user, err1 := strconv.ParseInt(f[11], 10, 64)
	system, err2 := strconv.ParseInt(f[12], 10, 64)
	pages, err3 := strconv.ParseInt(f[21], 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return Usage{}, err
	}
	return Usage{CPU: time.Duration(user+system) * clockTick, RSS: pages * int64(os.Getpagesize())}, nil
}

// loopback reports whether every address of 127.0.0.0/8 is usable, as on Linux, or only 127.0.0.1. macOS needs an alias
// of lo0 for each further address.
func loopback() bool {
	l, err := net.Listen("tcp", "127.0.0.42:0")
	if err != nil {
		return false
	}
	l.Close()
	return true
}
