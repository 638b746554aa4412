package process

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"
)

// NewAzurite prepares an Azurite under dir, for comparisons. It is started as a ring of one, and stores its data as by
// default: in memory, with a snapshot on disk every few seconds. Azurite has no port for CQL, so its Address is the
// Azure Tables port, and WaitAnswer and WaitAgreed do not apply.
func NewAzurite(dir string) (*Ring, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	// Outside of 127.77.0.0/16, from which rings take their addresses.
	const host = "127.0.98.10"
	s := &Server{Address: net.JoinHostPort(host, "10002"), Tables: "http://" + net.JoinHostPort(host, "10002"),
		Dir: filepath.Join(dir, "azurite")}
	s.argv = []string{"node", filepath.Join(root, ".tools/azurite/node_modules/azurite/dist/src/table/main.js"),
		"--tableHost", host, "--tablePort", "10002", "--location", s.Dir,
		"--silent", "--disableTelemetry", "--skipApiVersionCheck"}
	return &Ring{Servers: []*Server{s}}, nil
}

// WaitTables waits until the server accepts connections at its Azure Tables port.
func (s *Server) WaitTables(limit time.Duration) error {
	var last error
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var c net.Conn
		if c, last = net.Dial("tcp", strings.TrimPrefix(s.Tables, "http://")); last == nil {
			return c.Close()
		}
		if !s.Running() {
			return fmt.Errorf("process: %s ended:\n%s", s.Tables, s.Log())
		}
	}
	return fmt.Errorf("process: no server listens at %s after %v: %w", s.Tables, limit, last)
}
