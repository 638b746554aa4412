package process

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// metricsWait is the maximum time of one request for metrics.
const metricsWait = 5 * time.Second

// Metrics returns the metrics page of a cqld node, which it reads from the control socket. ctx bounds the request as
// well as metricsWait. It needs /proc, so it works on Linux only.
func (s *Server) Metrics(ctx context.Context) (string, error) {
	// A path of a socket has at most 107 bytes, so that the directory is opened and named by its descriptor.
	dir, err := os.Open(filepath.Join(s.Dir, "data"))
	if err != nil {
		return "", fmt.Errorf("process: metrics: %w", err)
	}
	defer dir.Close()
	// sockaddr_un has 108 bytes including the final zero.
	path := fmt.Sprintf("/proc/self/fd/%d/control.sock", dir.Fd())
	// The host of the URL is ignored; HTTP needs one.
	client := http.Client{Timeout: metricsWait, Transport: &http.Transport{DialContext: func(ctx context.Context, _,
		_ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://node/metrics", nil)
	if err != nil {
		return "", fmt.Errorf("process: metrics: %w", err)
	}
	r, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("process: metrics: %w", err)
	}
	defer r.Body.Close()
	page, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", r.Status, page)
	}
	if err != nil {
		return "", fmt.Errorf("process: metrics: %w", err)
	}
	return string(page), nil
}
