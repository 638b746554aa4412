package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// readyFile is the file with which the process of --detach reports that the ring is ready. It is removed when a ring
// starts, and its content does not matter.
func (c *localCommand) readyFile() string { return filepath.Join(c.DataDir, "local.ready") }

// detached is a ring whose process outlives this one.
type detached struct {
	process *os.Process
	ended   <-chan error // receives a value when the process ends
	printed string       // how to connect
}

// stop stops the ring, and returns when no process of it runs any longer.
func (d *detached) stop() error {
	// It is in another session, so Ctrl-C does not reach it.
	if err := requestStop(d.process); err != nil {
		return err
	}
	<-d.ended
	return nil
}

// arguments returns the command line of the process that detach starts, which runs the same ring.
func (c *localCommand) arguments() []string {
	args := []string{"local", "start", "--supervised", fmt.Sprintf("--nodes=%d", c.Nodes),
		fmt.Sprintf("--datacenters=%d", c.Datacenters), "--data-dir=" + c.DataDir, "--log-level=" + c.LogLevel}
	// Without the flag, a ring keeps its ports or looks for free ones.
	for flag, port := range map[string]*uint16{"--port": c.Port, "--tables-port": c.TablesPort,
		"--storage-port": c.StoragePort} {
		if port != nil {
			args = append(args, fmt.Sprintf("%s=%d", flag, *port))
		}
	}
	if c.Fresh {
		args = append(args, "--fresh")
	}
	if c.Secure {
		args = append(args, "--secure")
	}
	// The other process must accept the directory, and notes that it is incomplete.
	if c.Restoring != "" {
		args = append(args, "--restoring="+c.Restoring)
	}
	return args
}

// detach starts the ring in a process that outlives this one, and waits until it is ready. The environment is
// inherited.
func (c *localCommand) detach(ctx context.Context) (*detached, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err := checkRingDirectory(c.DataDir); err != nil {
		return nil, err
	}
	// The log of the process is in the data directory, so it must exist now.
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return nil, err
	}
	// The file of a process that was killed would report a ring as ready that is not.
	if err := os.Remove(c.readyFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	path := filepath.Join(c.DataDir, "local.log")
	// The file begins empty, because awaitDetached returns all of it.
	log, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(self, c.arguments()...)
	cmd.Stdout, cmd.Stderr = log, log
	// Otherwise the end of this terminal would stop the ring.
	outlive(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	// It ends with the process, which this one waits for only until the ring is ready, or to stop it.
	go func() { ended <- cmd.Wait() }()
	d := &detached{process: cmd.Process, ended: ended}
	d.printed, err = c.awaitDetached(ctx, d, path)
	return d, err
}

// awaitDetached waits until the ring of another process is ready, and returns what that process has printed. The end of
// the process is always a failure before the ring is ready; its output in the file log is then the error. It has no
// timeout of its own: the process gives up after agreeTimeout. The file is looked for every 50 ms, which is short
// beside the seconds that a ring takes to start.
func (c *localCommand) awaitDetached(ctx context.Context, d *detached, log string) (string, error) {
	printed := func() string {
		b, err := os.ReadFile(log)
		if err != nil {
			return err.Error()
		}
		return strings.TrimSpace(string(b))
	}
	// A file and not a pipe signals readiness: the process outlives this one, and nothing would read its pipe.
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		// main prefixes errors with the program's name again.
		case <-d.ended:
			return "", errors.New(strings.TrimPrefix(printed(), "cqld: "))
		// Waiting for its end ensures that no node remains.
		case <-ctx.Done():
			if err := d.stop(); err != nil {
				return "", err
			}
			return "", errors.New("interrupted")
		case <-poll.C:
			if _, err := os.Stat(c.readyFile()); err == nil {
				return printed(), nil
			}
		}
	}
}
