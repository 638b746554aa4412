package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cqld/cmd/cqld/ctl"
	"cqld/node/config"
	"cqld/node/control"
)

// logFile is the log of a node of a ring, in its directory.
const logFile = "cqld.log"

// localRing manages the node processes of `cqld local`.
type localRing struct {
	nodes   []*localNode
	flags   []string      // further flags of every node
	changed chan struct{} // capacity 1: signals that the state of a node has changed
}

// localNode is a node process and its last reported status.
type localNode struct {
	member
	cmd  *exec.Cmd
	log  *os.File
	life *os.File      // the process stops when this pipe is closed, also because this process has been killed
	done chan struct{} // closed when the process has ended and been reaped

	mu struct {
		sync.Mutex
		status   string // last status line; empty before the first
		ended    bool
		err      error
		reported bool // the exit has been printed
		byHand   bool // the user has started it again
	}
}

func newLocalRing(members []member) *localRing {
	r := &localRing{changed: make(chan struct{}, 1)}
	for _, m := range members {
		r.nodes = append(r.nodes, &localNode{member: m, done: make(chan struct{})})
	}
	return r
}

// start starts all node processes.
func (r *localRing) start(logLevel string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, n := range r.nodes {
		if err := n.start(self, append([]string{"--log-level", logLevel}, r.flags...), r.notify); err != nil {
			return fmt.Errorf("start node %d: %w", n.index, err)
		}
	}
	return nil
}

func (r *localRing) notify() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

func (n *localNode) start(binary string, flags []string, changed func()) error {
	var err error
	if n.log, err = os.OpenFile(filepath.Join(n.dir, logFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	n.cmd = exec.Command(binary, append([]string{"start", "--config", n.config(), "--status-fd", "1",
		"--stop-with-stdin"}, flags...)...)
	n.cmd.Stdout, n.cmd.Stderr = write, n.log // the log is written to the standard error output
	separate(n.cmd)
	stdin, life, err := os.Pipe()
	if err != nil {
		return errors.Join(err, read.Close(), write.Close())
	}
	n.cmd.Stdin, n.life = stdin, life
	n.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, config.EnvironmentPrefix)
	})
	err = n.cmd.Start()
	stdin.Close()
	write.Close()
	if err != nil {
		return errors.Join(err, read.Close(), life.Close())
	}
	go n.follow(read, changed) // ends with the process, which stop waits for
	return nil
}

// follow records the status lines of the process, and its exit.
func (n *localNode) follow(status io.ReadCloser, changed func()) {
	lines := bufio.NewScanner(status)
	for lines.Scan() {
		n.mu.Lock()
		n.mu.status = lines.Text()
		n.mu.Unlock()
		changed()
	}
	status.Close()
	err := n.cmd.Wait()
	n.mu.Lock()
	n.mu.ended, n.mu.err = true, err
	n.mu.Unlock()
	n.log.Close()
	n.life.Close()
	close(n.done)
	changed()
}

// state returns the node's last status line, and whether and how the process exited.
func (n *localNode) state() (status string, ended bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.status, n.mu.ended, n.mu.err
}

// awaitAgreement returns when every node sees all others up and has the same metadata. It gives up if the ring makes no
// progress within timeout: no node joins, and no node sees another one come up.
func (r *localRing) awaitAgreement(ctx context.Context, timeout time.Duration) error {
	limit := time.NewTimer(timeout)
	defer limit.Stop()
	var best progress
	for {
		agreed, err := r.agreed()
		if agreed || err != nil {
			return err
		}
		if best.advance(r.progress()) {
			limit.Reset(timeout)
		}
		select {
		case <-r.changed:
		case <-ctx.Done():
			return errors.New("interrupted")
		case <-limit.C:
			return fmt.Errorf("the ring did not start: no progress for %s; see %s", timeout,
				filepath.Join(filepath.Dir(r.nodes[0].dir), "node*", logFile))
		}
	}
}

// progress measures how close a ring is to agreement.
type progress struct{ members, up int }

// advance reports whether now exceeds p in any respect, and raises p accordingly.
func (p *progress) advance(now progress) bool {
	further := now.members > p.members || now.up > p.up
	p.members, p.up = max(p.members, now.members), max(p.up, now.up)
	return further
}

// progress returns the sums of what the nodes report: the members that each knows, and those that it sees up.
func (r *localRing) progress() (sum progress) {
	for _, n := range r.nodes {
		var up, members int
		status, _, _ := n.state()
		if _, err := fmt.Sscanf(status, "up=%d of=%d", &up, &members); err == nil {
			sum.members, sum.up = sum.members+members, sum.up+up
		}
	}
	return sum
}

func (r *localRing) agreed() (bool, error) {
	first := ""
	for i, n := range r.nodes {
		status, ended, err := n.state()
		if ended {
			//nolint:errorlint // err may be nil
			return false, fmt.Errorf("node %d exited immediately (%v): %s", n.index, err, n.lastLogLine())
		}
		if i == 0 {
			first = status
		}
		if status == "" || status != first || !strings.HasPrefix(status,
			fmt.Sprintf("up=%d of=%d ", len(r.nodes), len(r.nodes))) {
			return false, nil
		}
	}
	return true, nil
}

func (n *localNode) lastLogLine() string {
	b, err := os.ReadFile(filepath.Join(n.dir, logFile))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}

// print shows each node's state.
func (r *localRing) print() {
	fmt.Printf("  %-6s %-17s %-6s %-12s %-8s %s\n", "State", "CQL address", "Node", "Data center", "Process", "Log")
	for _, n := range r.nodes {
		_, ended, _ := n.state()
		state, process := "UN", strconv.Itoa(n.cmd.Process.Pid) // up and normal, as in nodetool
		switch {
		case n.startedByHand():
			process = "by hand"
		case ended:
			state = "DN"
		}
		fmt.Printf("  %-6s %-17s %-6d %-12s %-8s %s\n", state, n.native(), n.index, n.center, process,
			filepath.Join(n.dir, logFile))
	}
}

// watchEvery is how often the ring looks for nodes that the user has started again.
const watchEvery = time.Second

// watch reports nodes that exit, and those that the user starts again by hand, until ctx ends or no node runs.
// interrupted is true if ctx has ended.
func (r *localRing) watch(ctx context.Context, every time.Duration) (interrupted bool) {
	poll := time.NewTicker(every)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return true
		case <-r.changed:
		case <-poll.C:
		}
		news, alive := false, false
		for _, n := range r.nodes {
			line, runs := n.news()
			alive = alive || runs
			if line != "" {
				fmt.Println("\n" + line)
				news = true
			}
		}
		if !alive {
			fmt.Println("\nAll nodes have stopped.")
			return false
		}
		if news {
			r.print()
		}
	}
}

// news returns what has changed about the node since the last call, and whether it runs.
func (n *localNode) news() (line string, runs bool) {
	name := fmt.Sprintf("Node %d (%s)", n.index, n.native())
	_, ended, err := n.state()
	if !ended {
		return "", true
	}
	byHand := ctl.Running(filepath.Join(n.dir, nodeDataDir))
	n.mu.Lock()
	defer n.mu.Unlock()
	restart := ". Start it again with:\n  cqld start --config " + n.config()
	switch {
	case byHand && !n.mu.byHand:
		line = name + " runs again, started by hand. It stops with the ring."
	case n.mu.byHand && !byHand:
		line = name + ", started by hand, has stopped" + restart
	case !n.mu.reported && err == nil:
		line = name + " has stopped" + restart
	case !n.mu.reported:
		line = fmt.Sprintf("%s exited: %v%s", name, err, restart)
	}
	n.mu.reported, n.mu.byHand = true, byHand
	return line, byHand
}

func (n *localNode) startedByHand() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.byHand
}

// stopTimeout limits how long a node may drain before it is killed.
const stopTimeout = 15 * time.Second

// stop asks all nodes to stop, also those that the user has started again, and waits until they have exited.
func (r *localRing) stop() error {
	byHand := make([]error, len(r.nodes))
	var wg sync.WaitGroup
	for i, n := range r.nodes {
		if _, ended, _ := n.state(); ended && ctl.Running(filepath.Join(n.dir, nodeDataDir)) {
			client := control.DialSocket(filepath.Join(n.dir, nodeDataDir, control.SocketName))
			wg.Go(func() { byHand[i] = ctl.Stop(context.Background(), client, stopTimeout) })
		}
	}
	for _, n := range r.nodes {
		if n.cmd != nil && n.cmd.Process != nil {
			_ = requestStop(n.cmd.Process) // it may have exited already
		}
	}
	var errs []error
	limit := time.NewTimer(stopTimeout)
	defer limit.Stop()
	for _, n := range r.nodes {
		if n.cmd == nil || n.cmd.Process == nil {
			continue
		}
		select {
		case <-n.done:
		case <-limit.C:
			errs = append(errs, fmt.Errorf("node %d did not stop within %s and was killed", n.index, stopTimeout))
			_ = n.cmd.Process.Kill() // it may have exited meanwhile
			<-n.done
			limit.Reset(time.Second)
		}
	}
	wg.Wait()
	return errors.Join(append(errs, byHand...)...)
}
