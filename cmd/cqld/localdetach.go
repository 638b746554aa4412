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

// readyFile is the file with which the process of --detach reports that the ring is ready.
func (c *localCommand) readyFile() string { return filepath.Join(c.DataDir, "local.ready") }

// detach starts the ring in a process that outlives this one, and waits until it is ready.
func (c *localCommand) detach(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := checkRingDirectory(c.DataDir); err != nil {
		return err
	}
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return err
	}
	if err := os.Remove(c.readyFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	path := filepath.Join(c.DataDir, "local.log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]),
		func(a string) bool { return strings.HasPrefix(a, "--detach") })
	cmd := exec.Command(self, append(args, "--supervised")...)
	cmd.Stdout, cmd.Stderr = log, log
	outlive(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	// ends with the process, which this one does not wait for once the ring is ready
	go func() { ended <- cmd.Wait() }()
	return c.awaitDetached(ctx, cmd.Process, ended, path)
}

// awaitDetached waits until the ring of another process is ready, and prints what that process has printed.
func (c *localCommand) awaitDetached(ctx context.Context, p *os.Process, ended <-chan error, log string) error {
	printed := func() string {
		b, err := os.ReadFile(log)
		if err != nil {
			return err.Error()
		}
		return strings.TrimSpace(string(b))
	}
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case <-ended:
			return errors.New(strings.TrimPrefix(printed(), "cqld: "))
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
