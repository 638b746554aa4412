package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// readyFile is the file with which the process of --detach reports that the ring is ready. It is removed when a ring
// starts, and its content does not matter.
func (c *localCommand) readyFile() string { return filepath.Join(c.DataDir, "local.ready") }

// detach starts the ring in a process that outlives this one, and waits until it is ready. The other process runs the
// same command with --supervised instead of --detach. It has the arguments of this process, so the other one has the
// same ring; the environment is inherited as well.
func (c *localCommand) detach(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := checkRingDirectory(c.DataDir); err != nil {
		return err
	}
	// The log of the process is in the data directory, so it must exist now.
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return err
	}
	// The file of a process that was killed would report a ring as ready that is not.
	if err := os.Remove(c.readyFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	path := filepath.Join(c.DataDir, "local.log")
	// The file begins empty, because awaitDetached prints all of it.
	log, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	// The prefix includes --detach=true.
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]),
		func(a string) bool { return strings.HasPrefix(a, "--detach") })
	cmd := exec.Command(self, append(args, "--supervised")...)
	cmd.Stdout, cmd.Stderr = log, log
	// Otherwise the end of this terminal would stop the ring.
	outlive(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	// ends with the process, which this one does not wait for once the ring is ready
	go func() { ended <- cmd.Wait() }()
	return c.awaitDetached(ctx, cmd.Process, ended, path)
}

// awaitDetached waits until the ring of another process is ready, and prints what that process has printed. ended
// receives a value when the process ends, which is always a failure before the ring is ready; the output of the process
// in the file log is then the error. It has no timeout of its own: the process gives up after agreeTimeout. The file is
// looked for every 50 ms, which is short beside the seconds that a ring takes to start.
func (c *localCommand) awaitDetached(ctx context.Context, p *os.Process, ended <-chan error, log string) error {
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
		case <-ended:
			return errors.New(strings.TrimPrefix(printed(), "cqld: "))
		// The process is in another session, so Ctrl-C does not reach it. Waiting for its end ensures that no node
		// remains.
		case <-ctx.Done():
			if err := requestStop(p); err != nil {
				return err
			}
			<-ended
			return errors.New("interrupted")
		case <-poll.C:
			if _, err := os.Stat(c.readyFile()); err == nil {
				fmt.Println(printed())
				return nil
			}
		}
	}
}
