package ctl

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cqld/auth"
	"cqld/internal/await"
	"cqld/node/control"
)

// stopDir is the environment variable with the directory of the process in TestProcessThatDrains.
const stopDir = "CTL_TEST_DIRECTORY"

// TestProcessThatDrains is not a test: TestStopReturnsWhenTheProcessHasEnded runs it in a separate process. Like a
// node, it closes its control port first. It drains until its standard input ends, and finally writes the file drained.
func TestProcessThatDrains(t *testing.T) {
	dir := os.Getenv(stopDir)
	if dir == "" {
		t.Skip("it runs in a process of its own")
	}
	stop := make(chan struct{})
	s := control.NewServer(slog.New(slog.NewTextHandler(io.Discard, nil)), auth.AllowAll{})
	control.Handle(s, control.StopDaemon, func(context.Context, control.None, control.Report) (control.None, error) {
		close(stop)
		return control.None{}, nil
	})
	socket, err := control.Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	s.Serve(socket, "")
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Serve(tcp, "secret")
	if err := os.WriteFile(filepath.Join(dir, "address"), []byte(tcp.Addr().String()), 0o600); err != nil {
		t.Fatal(err)
	}
	<-stop
	s.Close()
	if err := os.WriteFile(filepath.Join(dir, "closed"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "drained"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// draining is a process of TestProcessThatDrains.
type draining struct {
	dir     string
	address string // of its control port
	stdin   io.Closer
}

func startDraining(t *testing.T) *draining {
	t.Helper()
	p := &draining{dir: t.TempDir()}
	cmd := exec.Command(os.Args[0], "-test.run=^TestProcessThatDrains$")
	cmd.Env = append(os.Environ(), stopDir+"="+p.dir)
	var err error
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	await.Until(t, "the process listens", func() bool {
		b, err := os.ReadFile(filepath.Join(p.dir, "address"))
		p.address = string(b)
		return err == nil && p.address != ""
	})
	return p
}

// wrote reports whether the process has written a file.
func (p *draining) wrote(name string) bool {
	_, err := os.Stat(filepath.Join(p.dir, name))
	return err == nil
}

// TestStopReturnsWhenTheProcessHasEnded stops a process that drains after it has closed its control port, over the
// socket and over the address. If the process does not end in time, Stop returns an error.
func TestStopReturnsWhenTheProcessHasEnded(t *testing.T) {
	for name, dial := range map[string]func(p *draining) *control.Client{
		"socket": func(p *draining) *control.Client {
			return control.DialSocket(filepath.Join(p.dir, control.SocketName))
		},
		"address": func(p *draining) *control.Client { return control.DialAddress(p.address, "secret") },
	} {
		// In parallel, because each test mostly waits for its own process.
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startDraining(t)
			stopped, drained := make(chan error, 1), false
			go func() {
				err := Stop(t.Context(), dial(p), 30*time.Second)
				drained = p.wrote("drained")
				stopped <- err
			}()
			await.Until(t, "the control port is closed", func() bool { return p.wrote("closed") })
			p.stdin.Close()
			if err := <-stopped; err != nil || !drained {
				t.Errorf("Stop returned %v; drained: %t", err, drained)
			}
		})
		t.Run(name+" in vain", func(t *testing.T) {
			t.Parallel()
			p := startDraining(t)
			// Long enough for the requests of a busy machine.
			err := Stop(t.Context(), dial(p), 5*time.Second)
			if err == nil || !strings.Contains(err.Error(), "its process has not ended within 5s") {
				t.Errorf("Stop of a process that does not end: %v", err)
			}
			await.Until(t, "the control port is closed", func() bool { return p.wrote("closed") })
			// A second request finds no control port.
			if err := Stop(t.Context(), dial(p), 30*time.Second); err == nil ||
				!strings.Contains(err.Error(), "no node responds at") {
				t.Errorf("Stop of a process that drains: %v", err)
			}
		})
	}
}

// TestStopExplainsOlderNodes stops a node of a version without the page that reports the end of the process. Older
// servers answer as this one does. Nothing may be stopped whose end Stop could not wait for.
func TestStopExplainsOlderNodes(t *testing.T) {
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		http.Error(w, "unknown operation "+r.URL.Path, http.StatusNotFound)
	}))
	address := s.Listener.Addr().String()
	err := Stop(t.Context(), control.DialAddress(address, "secret"), time.Minute)
	s.Close() // waits for the handler, which writes asked
	if err == nil || !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), "its version is older") {
		t.Errorf("Stop of an older node: %v", err)
	}
	if len(asked) != 1 || asked[0] != "GET /process" {
		t.Errorf("Stop sent %q", asked)
	}
}
