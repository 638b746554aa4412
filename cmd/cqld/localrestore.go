package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"cqld/backup"
	"cqld/cmd/cqld/ctl"
	"cqld/node/config"
)

// restoreCommand is `cqld restore`: it starts a ring of `cqld local` and fills it with a copy of a backup. The nodes
// restore like in any other ring; this command only starts their job:
//
//	prepareData, incompleteFile ─▶ ring ─▶ job "restore" on node 1 ─▶ incompleteFile removed ─▶ serves
//	     ▲                                       │ failure or Ctrl-C: the ring is stopped
//	     └──────────── the same command ─────────┘
type restoreCommand struct {
	ctl.RestoreFlags
	Local                   bool   `help:"Start a ring on this machine as 'cqld local' does, and restore to it."`
	BackupEncryptionKeyFile string `help:"File with the keys of encrypted backups." type:"path" placeholder:"FILE"`
	localCommand
}

// backupKeyVariables precedes the names of the environment variables with the keys of backups.
const backupKeyVariables = config.EnvironmentPrefix + "BACKUP_ENCRYPTION_KEY"

// Validate refuses wrong flags before anything is started. kong calls it.
func (c *restoreCommand) Validate() error {
	// Without --local, the user may mean a running ring. kong's message for a required flag would not explain that.
	if !c.Local {
		return errors.New("--local is missing: this command starts a ring on this machine; to restore to a ring that " +
			"runs, use cqld ctl restore")
	}
	if err := backup.CheckLocation(c.From); err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	_, err := c.Args()
	return err
}

// Run starts the ring, restores the backup, prints how to connect, and returns when the ring has stopped or, with
// --detach, immediately. After an error, no process of the ring is running.
func (c *restoreCommand) Run(ctx context.Context, out io.Writer) error {
	if err := c.check(); err != nil {
		return err
	}
	args, err := c.Args()
	if err != nil {
		return err
	}
	// The ring may have fewer nodes than a keyspace has replicas, and its data centers have other names.
	args.FitReplication = true
	// Equal flags result in equal records, because JSON has the fields in the order of the type.
	record, err := json.Marshal(args)
	if err != nil {
		return err
	}
	c.Restoring = string(record)
	// Nodes inherit the variable. It is not stored, so later starts of the ring do not need the key.
	if c.BackupEncryptionKeyFile != "" {
		if err := os.Setenv(backupKeyVariables+"_FILE", c.BackupEncryptionKeyFile); err != nil {
			return err
		}
	}
	earlier, err := ringConfigs(c.DataDir)
	if err != nil {
		return err
	}
	// prepareData refuses an existing ring or continues it, and never removes it here.
	began := len(earlier) > 0 && !c.Fresh
	fill := func(ctx context.Context) error {
		job, err := ctl.FillRing(ctx, c.DataDir, args, out, os.Stderr)
		began = began || job
		// Otherwise the error would be about a closed connection.
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		// Only now may `cqld local` start the ring.
		if err == nil {
			err = os.Remove(incompleteFile(c.DataDir))
		}
		return c.advise(err, began)
	}
	if c.Detach {
		err = c.fillDetached(ctx, fill, out)
	} else {
		err = c.run(ctx, fill)
	}
	// An empty ring is useless, and would prevent a retry with other flags.
	if _, incomplete := os.Stat(incompleteFile(c.DataDir)); err != nil && incomplete == nil && !began {
		present, listing := ringConfigs(c.DataDir)
		return errors.Join(err, listing, removeRing(c.DataDir, present))
	}
	return err
}

// fillDetached starts the ring in another process, and restores from this one, which has the terminal.
func (c *restoreCommand) fillDetached(ctx context.Context, fill func(context.Context) error, out io.Writer) error {
	d, err := c.detach(ctx)
	if err != nil {
		return err
	}
	// The nodes are children of the other process, which stops them.
	if err := fill(ctx); err != nil {
		return errors.Join(err, d.stop())
	}
	_, err = fmt.Fprintln(out, d.printed)
	return err
}

// advise adds what to do next to the error of a restore; nil stays nil. A restore that has started can be continued.
func (c *restoreCommand) advise(err error, began bool) error {
	if err == nil || !began {
		return err
	}
	// The arguments are repeated as given, except --fresh, which would delete the copy.
	var words []string
	for _, a := range os.Args[1:] {
		if a != "--fresh" {
			words = append(words, shellQuoted(a))
		}
	}
	return fmt.Errorf("%w\nThe ring was stopped, and its copy is incomplete. Continue with: cqld %s\nBegin again with "+
		"the same command and --fresh", err, strings.Join(words, " "))
}

// incompleteFile returns the file that exists in a ring's directory while a backup is being restored to it. It contains
// the arguments of the restore.
func incompleteFile(dir string) string { return filepath.Join(dir, "restore.incomplete") }

// checkCopy refuses to start a ring with an incomplete copy of a backup, unless this command continues the restore. It
// also refuses to restore to an existing ring.
func (c *localCommand) checkCopy(exists bool) error {
	b, err := os.ReadFile(incompleteFile(c.DataDir))
	switch {
	// The backup's rows would be mixed with others.
	case errors.Is(err, os.ErrNotExist) && c.Restoring != "" && exists:
		return fmt.Errorf("%s holds a ring: start it with cqld local%s and restore with cqld ctl restore, or use "+
			"--fresh, which deletes it, or another --data-dir", c.DataDir, dataDirFlag(c.DataDir))
	case errors.Is(err, os.ErrNotExist) || err == nil && string(b) == c.Restoring:
		return nil
	// It is unknown whether the copy is complete.
	case err != nil:
		return err
	}
	return fmt.Errorf("%s holds an incomplete copy of a backup, %s: repeat the command cqld restore that began it, or "+
		"use --fresh, which deletes the copy, or another --data-dir", c.DataDir, b)
}
