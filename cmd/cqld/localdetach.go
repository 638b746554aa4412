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

// readyFile is the file that the process of --detach creates when the ring is ready. It is removed when a ring starts.
// Its content does not matter.
func (c *localCommand) readyFile() string { return filepath.Join(c.DataDir, "local.ready") }

// detached is a ring whose process outlives this process.
type detached struct {
	process *os.Process
	ended   <-chan error // receives a value when the process ends
	printed string       // how to connect
}

// stop stops the ring, and returns when none of its processes is running.
func (d *detached) stop() error {
	// The process is in another session, so Ctrl-C does not reach it.
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
	// Without the flag, a ring keeps its ports, or a new one chooses free ports.
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
	// The other process must accept the directory, and marks it as incomplete.
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
	// A leftover file of a killed process would report the ring as ready.
	if err := os.Remove(c.readyFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	path := filepath.Join(c.DataDir, "local.log")
	// The file starts empty, because awaitDetached returns its whole content.
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
	// The goroutine ends with the process. This process waits for it only until the ring is ready, or to stop it.
	go func() { ended <- cmd.Wait() }()
	d := &detached{process: cmd.Process, ended: ended}
	d.printed, err = c.awaitDetached(ctx, d, path)
	return d, err
}

// awaitDetached waits until the ring of another process is ready, and returns what that process has printed. If the
// process ends before the ring is ready, that is a failure, and its output in the file log is the error. There is no
// separate timeout, because the process gives up after agreeTimeout. Polling every 50 ms is fast enough for a ring that
// takes seconds to start.
func (c *localCommand) awaitDetached(ctx context.Context, d *detached, log string) (string, error) {
	printed := func() string {
		b, err := os.ReadFile(log)
		if err != nil {
			return err.Error()
		}
		return strings.TrimSpace(string(b))
	}
	// Readiness is signalled by a file instead of a pipe, because the process outlives this one, and then nothing would
	// read the pipe.
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		// main adds the program's name to errors, so the prefix is removed.
		case <-d.ended:
			return "", errors.New(strings.TrimPrefix(printed(), "cqld: "))
		// Waiting for the process ensures that no node remains.
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
