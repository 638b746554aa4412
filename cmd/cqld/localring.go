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

// localRing manages the node processes of `cqld local`. One goroutine calls start, awaitAgreement, watch and stop in
// sequence; follow runs in one goroutine per node.
type localRing struct {
	// nodes are in the order of their indexes. The slice does not change.
	nodes   []*localNode
	flags   []string      // further flags of every node
	changed chan struct{} // capacity 1: signals that the state of a node has changed
}

// localNode is a node process and its last reported status. If the user restarts the node by hand, only its control
// socket is known.
type localNode struct {
	member
	cmd  *exec.Cmd
	log  *os.File
	life *os.File      // closing this pipe stops the process; it is also closed when this process is killed
	done chan struct{} // closed when the process has ended and been reaped

	mu struct {
		sync.Mutex
		// status is in the format of node.Status.Line.
		status string // last status line; empty before the first
		ended  bool
		// err is the result of Wait if ended; nil for an exit with status 0.
		err      error
		reported bool // the exit has been printed
		byHand   bool // the user has started it again, and it runs
		// restarted is true once byHand was: the user has handled the exit of the process.
		restarted bool
	}
}

// newLocalRing returns a ring of nodes that are not started.
func newLocalRing(members []member) *localRing {
	r := &localRing{changed: make(chan struct{}, 1)}
	for _, m := range members {
		r.nodes = append(r.nodes, &localNode{member: m, done: make(chan struct{})})
	}
	return r
}

// start starts all node processes. If one fails, earlier nodes are already running, and the caller stops them. The
// nodes start concurrently and wait for their seed themselves.
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

// notify wakes awaitAgreement or watch. One pending signal suffices, because they check all nodes.
func (r *localRing) notify() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// start starts the process of the node. It writes its log to a file, status lines to a pipe that follow reads, and
// stops when its standard input ends. changed is called after each new status and after the exit. After an error there
// is no process, and the log file stays open until this process ends.
func (n *localNode) start(binary string, flags []string, changed func()) error {
	var err error
	// Append, to keep the log of earlier failures.
	if n.log, err = os.OpenFile(filepath.Join(n.dir, logFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	// The status is written to descriptor 1, so that no further descriptor has to be inherited.
	n.cmd = exec.Command(binary, append([]string{"start", "--config", n.config(), "--status-fd", "1",
		"--stop-with-stdin"}, flags...)...)
	n.cmd.Stdout, n.cmd.Stderr = write, n.log // the log is written to the standard error output
	// A separate process group: Ctrl-C reaches only this process, which stops the nodes.
	separate(n.cmd)
	stdin, life, err := os.Pipe()
	if err != nil {
		return errors.Join(err, read.Close(), write.Close())
	}
	n.cmd.Stdin, n.life = stdin, life
	// Environment variables override the configuration file, and would give all nodes the same address or directory.
	// Only the backup keys are the same for all nodes.
	n.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, config.EnvironmentPrefix) && !strings.HasPrefix(v, backupKeyVariables)
	})
	err = n.cmd.Start()
	// The child has its own copies. If this process kept the write end open, follow would never reach the end of the
	// status lines.
	stdin.Close()
	write.Close()
	if err != nil {
		return errors.Join(err, read.Close(), life.Close())
	}
	go n.follow(read, changed) // ends with the process, which stop waits for
	return nil
}

// follow records the status lines of the process, and its exit. It runs until the process closes its status output,
// waits for the exit, and closes the files and done. Only the last status is kept.
func (n *localNode) follow(status io.ReadCloser, changed func()) {
	lines := bufio.NewScanner(status)
	// Each line is a complete status. Scan ends when the process has exited, because only the process has the write
	// end.
	for lines.Scan() {
		n.mu.Lock()
		n.mu.status = lines.Text()
		n.mu.Unlock()
		changed()
	}
	status.Close()
	// The last status line is recorded before the exit.
	err := n.cmd.Wait()
	n.mu.Lock()
	n.mu.ended, n.mu.err = true, err
	n.mu.Unlock()
	n.log.Close()
	n.life.Close()
	// The exit is recorded first, so that stop and watch see it when done is closed.
	close(n.done)
	changed()
}

// state returns the node's last status line, and whether and how the process exited.
func (n *localNode) state() (status string, ended bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.status, n.mu.ended, n.mu.err
}

// awaitAgreement returns when every node sees all others up and has the same metadata. It gives up if no node joins,
// and no node sees another one come up, within timeout. The whole start is not limited, because a large ring on a slow
// machine starts slowly. An interrupt returns the same error as in detach.
func (r *localRing) awaitAgreement(ctx context.Context, timeout time.Duration) error {
	limit := time.NewTimer(timeout)
	defer limit.Stop()
	var best progress
	for {
		agreed, err := r.agreed()
		if agreed || err != nil {
			return err
		}
		// Only a new maximum restarts the timeout.
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

// progress measures how close a ring is to agreement. The sums grow during a start. advance keeps the maxima, so a node
// that goes up and down does not count as progress.
type progress struct{ members, up int }

// advance reports whether now exceeds p in any respect, and raises p accordingly.
func (p *progress) advance(now progress) bool {
	further := now.members > p.members || now.up > p.up
	p.members, p.up = max(p.members, now.members), max(p.up, now.up)
	return further
}

// progress returns the sums over all nodes: the members that each node knows, and the members that it sees up.
func (r *localRing) progress() (sum progress) {
	for _, n := range r.nodes {
		var up, members int
		status, _, _ := n.state()
		// A node that has not reported yet counts as 0. The format is node.Status.Line.
		if _, err := fmt.Sscanf(status, "up=%d of=%d", &up, &members); err == nil {
			sum.members, sum.up = sum.members+members, sum.up+up
		}
	}
	return sum
}

// agreed reports whether all nodes have the same status line with all members up. It returns an error if a node has
// exited, with the last line of its log. For example, all four nodes must report "up=4 of=4 " followed by the same
// version of the metadata.
func (r *localRing) agreed() (bool, error) {
	first := ""
	for i, n := range r.nodes {
		status, ended, err := n.state()
		if ended {
			//nolint:errorlint // err may be nil
			// A node that exits before the ring is complete does not come back by itself, so there is nothing to wait
			// for.
			return false, fmt.Errorf("node %d exited immediately (%v): %s", n.index, err, n.lastLogLine())
		}
		// The first node's line is compared with the others.
		if i == 0 {
			first = status
		}
		// The line contains the version of the metadata, so equal lines mean equal metadata. The trailing space
		// excludes longer numbers.
		if status == "" || status != first || !strings.HasPrefix(status,
			fmt.Sprintf("up=%d of=%d ", len(r.nodes), len(r.nodes))) {
			return false, nil
		}
	}
	return true, nil
}

// lastLogLine returns the last line of the log, which usually explains an exit, or why the log cannot be read. After a
// start the file is short.
func (n *localNode) lastLogLine() string {
	b, err := os.ReadFile(filepath.Join(n.dir, logFile))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}

// print shows the state of each node. A node that was started by hand is shown as UN without a process, which is
// unknown.
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

// watchEvery is how often the ring checks for nodes that the user has restarted.
const watchEvery = time.Second

// watch reports nodes that exit, and those that the user starts again by hand, until ctx ends or no node runs.
// interrupted is true if ctx has ended. A node's exit is signalled immediately. A node that the user starts by hand is
// not a child of this process, so it must be polled.
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
		// All nodes are checked before the table is printed, so it shows one state.
		news, alive := false, false
		for _, n := range r.nodes {
			line, runs := n.news()
			alive = alive || runs
			if line != "" {
				fmt.Println("\n" + line)
				news = true
			}
		}
		// Without nodes the process has no purpose.
		if !alive {
			fmt.Println("\nAll nodes have stopped.")
			return false
		}
		if news {
			r.print()
		}
	}
}

// news returns what has changed about the node since the last call, and whether it is running. line is empty if nothing
// has changed. Each call consumes the change, so only one goroutine may call it.
func (n *localNode) news() (line string, runs bool) {
	name := fmt.Sprintf("Node %d (%s)", n.index, n.native())
	_, ended, err := n.state()
	if !ended {
		return "", true
	}
	// The probe may take a while, so the lock is not held.
	byHand := ctl.Running(filepath.Join(n.dir, nodeDataDir))
	n.mu.Lock()
	defer n.mu.Unlock()
	restart := ". Start it again with:\n  cqld start --config " + n.config()
	// If the node is already running again when its exit is first noticed, only the restart is reported.
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
	n.mu.reported, n.mu.byHand, n.mu.restarted = true, byHand, n.mu.restarted || byHand
	return line, byHand
}

// startedByHand reports whether news has seen the node running again after its process exited.
func (n *localNode) startedByHand() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.byHand
}

// failed returns the errors of node processes that failed, except nodes that the user has restarted. It is nil if all
// processes ended with status 0 or are still running.
func (r *localRing) failed() error {
	var errs []error
	for _, n := range r.nodes {
		n.mu.Lock()
		if n.mu.err != nil && !n.mu.restarted {
			errs = append(errs, fmt.Errorf("node %d exited: %w; see %s", n.index, n.mu.err,
				filepath.Join(n.dir, logFile)))
		}
		n.mu.Unlock()
	}
	return errors.Join(errs...)
}

// stopTimeout limits how long a node may drain before it is killed.
const stopTimeout = 15 * time.Second

// stop asks all nodes to stop, including restarted ones, and waits until they have exited. The time limit applies to
// all nodes together, which drain concurrently. Nodes that exceed it are killed and reported as errors; after the first
// one, each further node has one more second. After a failed start, nodes without a process are skipped.
func (r *localRing) stop() error {
	byHand := make([]error, len(r.nodes))
	var wg sync.WaitGroup
	// A node that was started by hand is stopped through its control socket, because its process is unknown.
	for i, n := range r.nodes {
		// A node whose process has not exited is stopped by a signal below.
		if _, ended, _ := n.state(); ended && ctl.Running(filepath.Join(n.dir, nodeDataDir)) {
			// If the node ends after this probe, Stop returns an error.
			client := control.DialSocket(filepath.Join(n.dir, nodeDataDir, control.SocketName))
			wg.Go(func() { byHand[i] = ctl.Stop(context.Background(), client, stopTimeout) })
		}
	}
	// All nodes are asked to stop before waiting for any, so they drain concurrently.
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
			// The timer has fired; without a reset, later nodes would never be killed.
			limit.Reset(time.Second)
		}
	}
	wg.Wait()
	return errors.Join(append(errs, byHand...)...)
}
