package process

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
)

// status is the last line that a cqld node wrote about its view of the ring, "up=N of=N …": CQL does not show which
// nodes are alive. The node writes a line at each change, on the descriptor of --status-fd.
type status struct{ last atomic.Pointer[string] }

// statusFD is the descriptor to which a node writes, the first after the standard three.
const statusFD = 3

// attach gives the process a pipe for the status, and returns the function to call after its start. The caller calls it
// also if the start fails.
func (s *status) attach(cmd *exec.Cmd) (started func(), err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.ExtraFiles = []*os.File{write}
	// The view of the previous process no longer holds.
	s.last.Store(nil)
	return func() {
		// The process has a copy. With this one open, follow would not see its end.
		write.Close()
		go s.follow(read)
	}, nil
}

// follow keeps the last line until the process ends. A line that is longer than the buffer of the Scanner ends the
// reading; lines are short.
func (s *status) follow(lines io.ReadCloser) {
	defer lines.Close()
	for sc := bufio.NewScanner(lines); sc.Scan(); {
		line := sc.Text()
		s.last.Store(&line)
	}
}

// seesAlive reports whether the node knows that many nodes, and considers all alive. Without a line, right after the
// start, it is false.
func (s *status) seesAlive(nodes int) bool {
	line := s.last.Load()
	return line != nil && strings.HasPrefix(*line, fmt.Sprintf("up=%d of=%d ", nodes, nodes))
}
