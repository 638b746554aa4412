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

// localRing manages the node processes of `cqld local`. start, awaitAgreement, watch and stop are called one after the
// other by one goroutine; follow runs in a goroutine of each node.
type localRing struct {
	// nodes are in the order of their indexes. The slice does not change.
	nodes   []*localNode
	flags   []string      // further flags of every node
	changed chan struct{} // capacity 1: signals that the state of a node has changed
}

// localNode is a node process and its last reported status. A localNode has one process in its life: a node that the
// user starts again is known by its control socket only.
type localNode struct {
	member
	cmd  *exec.Cmd
	log  *os.File
	life *os.File      // the process stops when this pipe is closed, also because this process has been killed
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
		// restarted is true once byHand was: the user has dealt with the exit of the process.
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

// start starts all node processes. If one fails, the nodes before it run, and the caller stops them. The nodes start at
// the same time; each waits for its seed by itself.
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

// notify wakes awaitAgreement or watch. A pending signal is enough, because they look at all nodes.
func (r *localRing) notify() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// start starts the process of the node. It writes its log to a file, status lines to a pipe that follow reads, and
// stops when its standard input ends. changed is called after each new status and after the exit. After an error, there
// is no process, and the log stays open until this process ends.
func (n *localNode) start(binary string, flags []string, changed func()) error {
	var err error
	// The log is appended to: a user who looks for an earlier failure finds it.
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
	// The ring stops its nodes itself, so that Ctrl-C reaches this process only.
	separate(n.cmd)
	stdin, life, err := os.Pipe()
	if err != nil {
		return errors.Join(err, read.Close(), write.Close())
	}
	n.cmd.Stdin, n.life = stdin, life
	// Variables override the configuration file and would give all nodes the same address or directory. The keys of
	// backups are the same for all nodes.
	n.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, config.EnvironmentPrefix) && !strings.HasPrefix(v, backupKeyVariables)
	})
	err = n.cmd.Start()
	// The child has its own copies. This process must close its write end, or follow would never read the end of the
	// status lines.
	stdin.Close()
	write.Close()
	if err != nil {
		return errors.Join(err, read.Close(), life.Close())
	}
	go n.follow(read, changed) // ends with the process, which stop waits for
	return nil
}

// follow records the status lines of the process, and its exit. It runs until the process has closed its status output,
// then waits for the exit, closes the files and done. A status that a slow reader misses is replaced by the next one.
func (n *localNode) follow(status io.ReadCloser, changed func()) {
	lines := bufio.NewScanner(status)
	// Only the last line counts: each one is the whole status. Scan ends when the process has exited, because it has
	// the only write end.
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
	// The exit is recorded before done is closed, so that stop and watch see it.
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
// progress within timeout: no node joins, and no node sees another one come up. The limit is on time without progress
// and not on the whole start, because a large ring on a slow machine starts slowly. It returns the same error for an
// interrupt as detach.
func (r *localRing) awaitAgreement(ctx context.Context, timeout time.Duration) error {
	limit := time.NewTimer(timeout)
	defer limit.Stop()
	var best progress
	for {
		agreed, err := r.agreed()
		if agreed || err != nil {
			return err
		}
		// Only a new maximum renews the time.
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

// progress measures how close a ring is to agreement. The sums only grow during a start; advance keeps their maxima, so
// that a node that flaps is no progress.
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
		// A node that has not reported yet counts 0. The format is node.Status.Line.
		if _, err := fmt.Sscanf(status, "up=%d of=%d", &up, &members); err == nil {
			sum.members, sum.up = sum.members+members, sum.up+up
		}
	}
	return sum
}

// agreed reports whether all nodes have the same status line with all members up. It returns an error if a node has
// exited, with the last line of its log. For example, all four nodes have to report "up=4 of=4 " followed by the same
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
		// The first node's line is the one to compare with.
		if i == 0 {
			first = status
		}
		// Equal lines mean equal metadata, because the line contains its version. The space after the number excludes
		// longer numbers.
		if status == "" || status != first || !strings.HasPrefix(status,
			fmt.Sprintf("up=%d of=%d ", len(r.nodes), len(r.nodes))) {
			return false, nil
		}
	}
	return true, nil
}

// lastLogLine returns the line that usually explains an exit, or why the log cannot be read. The whole file is read,
// which is short after a start.
func (n *localNode) lastLogLine() string {
	b, err := os.ReadFile(filepath.Join(n.dir, logFile))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}

// print shows each node's state. A node started by hand is printed as UN without its process, which is unknown.
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
// interrupted is true if ctx has ended. A node's exit is signalled at once. A node that the user starts by hand is no
// child of this process, so that only polling finds it.
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
		// All nodes are asked before the table is printed, so that it shows one state.
		news, alive := false, false
		for _, n := range r.nodes {
			line, runs := n.news()
			alive = alive || runs
			if line != "" {
				fmt.Println("\n" + line)
				news = true
			}
		}
		// Without nodes the process has no purpose, and a shell that waits for it gets its prompt back.
		if !alive {
			fmt.Println("\nAll nodes have stopped.")
			return false
		}
		if news {
			r.print()
		}
	}
}

// news returns what has changed about the node since the last call, and whether it runs. line is empty if nothing has
// changed. Only one goroutine may call it, because each call consumes the change.
func (n *localNode) news() (line string, runs bool) {
	name := fmt.Sprintf("Node %d (%s)", n.index, n.native())
	_, ended, err := n.state()
	if !ended {
		return "", true
	}
	// The probe may take until its timeout, so it happens without the lock.
	byHand := ctl.Running(filepath.Join(n.dir, nodeDataDir))
	n.mu.Lock()
	defer n.mu.Unlock()
	restart := ". Start it again with:\n  cqld start --config " + n.config()
	// The first report of the exit may find that the node already runs again; then only that is reported.
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

// failed returns the errors of the nodes whose processes have failed, without nodes that the user has started again. It
// is nil if all of them ended with status 0 or still run.
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

// stop asks all nodes to stop, also those that the user has started again, and waits until they have exited. The limit
// is common to all nodes, which drain at the same time. Nodes that exceed it are killed and reported as errors. It is
// safe after a failed start: nodes without a process are left out. After the first node that is killed, each further
// one has another second.
func (r *localRing) stop() error {
	byHand := make([]error, len(r.nodes))
	var wg sync.WaitGroup
	// A node started by hand is stopped through its control socket: its process is unknown here.
	for i, n := range r.nodes {
		// A node whose process has not exited is stopped by its signal below.
		if _, ended, _ := n.state(); ended && ctl.Running(filepath.Join(n.dir, nodeDataDir)) {
			// The probe above has found the node; if it ends meanwhile, Stop returns the error.
			client := control.DialSocket(filepath.Join(n.dir, nodeDataDir, control.SocketName))
			wg.Go(func() { byHand[i] = ctl.Stop(context.Background(), client, stopTimeout) })
		}
	}
	// All nodes are asked to stop before any is waited for, so they drain at the same time.
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
			// The channel has been emptied, so without a new time the following nodes would never be killed.
			limit.Reset(time.Second)
		}
	}
	wg.Wait()
	return errors.Join(append(errs, byHand...)...)
}
