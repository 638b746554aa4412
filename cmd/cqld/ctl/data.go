package ctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"cqld/node/control"
)

// tablesCommand has the arguments that select tables; tables require a keyspace. It is embedded, so commands have these
// two arguments in this order.
type tablesCommand struct {
	Keyspace string   `arg:"" optional:"" help:"The keyspace; default: all keyspaces."`
	Tables   []string `arg:"" optional:"" help:"Tables of the keyspace; default: all tables."`
}

// args returns the arguments in the form of the control protocol.
func (c tablesCommand) args() control.TablesArgs {
	return control.TablesArgs{Keyspace: c.Keyspace, Tables: c.Tables}
}

// flushCommand accepts tables, like nodetool, but the node flushes all memtables, because tables share them.
type flushCommand struct{ tablesCommand }

// Run flushes memtables to disk.
func (c *flushCommand) Run(s *session) error {
	return ask(s, control.Flush, c.args(), quiet[control.None])
}

// compactCommand starts a job and waits for it.
type compactCommand struct{ tablesCommand }

// Run compacts tables.
func (c *compactCommand) Run(s *session) error {
	return ask(s, control.Compact, c.args(), quiet[control.None])
}

// cleanupCommand starts a job and waits for it. Nodes also clean up automatically after ring changes.
type cleanupCommand struct{ tablesCommand }

// Run deletes data in ranges that the node no longer owns.
func (c *cleanupCommand) Run(s *session) error {
	return ask(s, control.Cleanup, c.args(), quiet[control.None])
}

// verifyCommand starts a job and waits for it.
type verifyCommand struct {
	tablesCommand
	Throughput int64 `default:"64" placeholder:"MIB" help:"Read at most this many MiB a second; 0 for no bound."`
}

// Run reads files. It fails if some are corrupt, so that scripts can test it.
func (c *verifyCommand) Run(s *session) error {
	v, err := c.verify(s)
	if err != nil || len(v.Corrupt) == 0 {
		return err
	}
	return errors.New("files are corrupt: run 'cqld ctl scrub', which restores what they contained from other nodes")
}

// verify reads files and prints the result.
func (c *verifyCommand) verify(s *session) (v control.VerifiedFiles, err error) {
	rate, err := bytesPerSecond(c.Throughput)
	if err != nil {
		return v, err
	}
	args := control.VerifyFilesArgs{TablesArgs: c.args(), BytesPerSecond: rate}
	if v, err = fetch(s, control.VerifyFiles, args); err != nil {
		return v, err
	}
	return v, show(s, v, showVerifiedFiles)
}

// showVerifiedFiles prints the corrupt files and a summary.
func showVerifiedFiles(w io.Writer, v control.VerifiedFiles) error {
	p := &printer{w: w}
	for _, path := range v.Corrupt {
		p.line("corrupt: %s", path)
	}
	p.line("%d files verified (%s), %d corrupt", v.Files, size(v.Bytes), len(v.Corrupt))
	if v.Unrepaired && len(v.Corrupt) == 0 {
		p.line("corruption that was found earlier is not repaired yet")
	}
	return p.err
}

// scrubCommand verifies files and, if the node has corrupt data, repairs it.
type scrubCommand struct{ verifyCommand }

// Run verifies files and repairs. The repair covers all tables, because a corrupt file may contain rows of tables that
// the arguments do not name.
func (c *scrubCommand) Run(s *session) error {
	v, err := c.verify(s)
	// The node may know of corrupt data that this verification did not find: an earlier repair failed, or a request
	// read a corrupt file.
	if err != nil || len(v.Corrupt) == 0 && !v.Unrepaired {
		return err
	}
	return ask(s, control.Repair, control.RepairArgs{Corrupted: true}, func(w io.Writer,
		r control.RepairResult) error {
		return showRepair(w, r, false)
	})
}

// drainCommand makes the node refuse clients until its process ends.
type drainCommand struct{}

// Run drains the node, so that it can be stopped. The process continues to run; stopdaemon ends it.
func (c *drainCommand) Run(s *session) error {
	return ask(s, control.Drain, control.None{}, quiet[control.None])
}

// stopCommand ends the process of the node.
type stopCommand struct{}

// stopWait is how long the command waits for the node to end: the 10 s for which a node drains (drainTimeout of package
// main), plus the time to close its files.
const stopWait = 30 * time.Second

// Run asks the node to stop, and waits until its process has ended.
func (c *stopCommand) Run(s *session) error {
	client, err := s.where.client()
	if err != nil {
		return err
	}
	return Stop(s.ctx, client, stopWait)
}

// Stop asks a node to stop and waits until its process has ended. wait bounds the whole call. `cqld local` uses it for
// nodes that were started by hand. The error names the node. After an error, the node may still stop later.
func Stop(ctx context.Context, client *control.Client, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	// Opened before the request, because a stopping node accepts no connections while it drains.
	ended, err := client.Hold(ctx)
	// Otherwise Stop would return while the process still runs, and the caller might start another one on its
	// directory.
	if errors.Is(err, control.ErrUnsupported) {
		return fmt.Errorf("the node at %s was not asked to stop: its version is older and cannot report the end of "+
			"its process; use cqld ctl of that version, or end the process as its service manager does",
			client.Where())
	}
	if err != nil {
		return err
	}
	// The node may close the connection before its response arrives.
	if _, err := control.Call(ctx, client, control.StopDaemon, control.None{}, nil); err != nil &&
		!errors.Is(err, control.ErrStopped) {
		return err
	}
	err = ended()
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the node at %s was asked to stop, and its process has not ended within %s", client.Where(),
			wait)
	}
	return err
}

// snapshotCommand covers all tables of the keyspaces. The tag is the name of a directory. The snapshot's files are hard
// links to the node's files, so they take space only after the node has compacted its own.
type snapshotCommand struct {
	// An empty list includes the system keyspaces.
	Keyspaces []string `arg:"" optional:"" help:"Keyspaces; default: all keyspaces."`
	Tag       string   `short:"t" help:"Name of the snapshot; default: the current time."`
}

// Run creates a snapshot.
func (c *snapshotCommand) Run(s *session) error {
	return ask(s, control.TakeSnapshot, control.SnapshotArgs{Tag: c.Tag, Keyspaces: c.Keyspaces},
		func(w io.Writer, made control.Snapshot) error {
			// The text is nodetool's.
			what := "all keyspaces"
			if len(c.Keyspaces) > 0 {
				what = strings.Join(made.Keyspaces, ", ")
			}
			p := &printer{w: w}
			p.line("Requested creating snapshot(s) for [%s] with snapshot name [%s]\nSnapshot directory: %s", what,
				made.Tag, made.Directory)
			if len(c.Keyspaces) > 0 {
				p.line("A node cannot be restored from a snapshot of some keyspaces.")
			}
			// An incomplete snapshot is not an error: it contains everything that could be read.
			for _, lacks := range made.Lacks {
				p.line("The snapshot is incomplete: %s", lacks)
			}
			return p.err
		})
}

// listSnapshotsCommand lists the snapshots of one node.
type listSnapshotsCommand struct{}

// Run lists the snapshots.
func (c *listSnapshotsCommand) Run(s *session) error {
	return ask(s, control.ListSnapshots, control.None{}, showSnapshots)
}

// showSnapshots prints the table of nodetool listsnapshots. The true size is the space that removing the snapshot would
// free. Times are in UTC with milliseconds, in nodetool's format.
func showSnapshots(w io.Writer, all control.Snapshots) error {
	p := &printer{w: w}
	p.line("Snapshot Details:")
	if len(all.Snapshots) == 0 {
		p.line("There are no snapshots")
		return p.err
	}
	var total int64
	// Snapshots share files with the node and with each other, so the sizes do not add up to space on disk.
	t := newTable("Snapshot name", "Keyspace names", "True size", "Size on disk", "Creation time")
	const form = "2006-01-02T15:04:05.000Z"
	var notes []string
	for _, s := range all.Snapshots {
		if s.Problem != "" {
			notes = append(notes, fmt.Sprintf("%s cannot be verified: %s", s.Tag, s.Problem))
		}
		if s.Expires != nil {
			notes = append(notes, fmt.Sprintf("%s is removed at %s", s.Tag, s.Expires.UTC().Format(form)))
		}
		total += s.TrueSize
		t.row(s.Tag, strings.Join(s.Keyspaces, ","), size(s.TrueSize), size(s.Size), s.Created.UTC().Format(form))
	}
	p.table(t)
	p.line("\nTotal TrueDiskSpaceUsed: %s", size(total))
	for _, text := range notes {
		p.line("%s", text)
	}
	return p.err
}

// importCommand starts a job and waits for it. It works on one node, as the snapshot does.
type importCommand struct {
	Keyspace string `arg:"" help:"Keyspace of the table."`
	Table    string `arg:"" help:"Table that gets the rows."`
	Tag      string `short:"t" required:"" help:"The snapshot to read."`
}

// Run adds the rows of a snapshot to a table.
func (c *importCommand) Run(s *session) error {
	return ask(s, control.Import, control.ImportArgs{Tag: c.Tag, Keyspace: c.Keyspace, Table: c.Table},
		quiet[control.None])
}

// verifySnapshotCommand reads a whole snapshot, on the node that has it.
type verifySnapshotCommand struct {
	Tag string `short:"t" required:"" help:"The snapshot to verify."`
}

// Run compares the files of a snapshot with its manifest. It fails if they differ, so that scripts can test it.
func (c *verifySnapshotCommand) Run(s *session) error {
	v, err := fetch(s, control.VerifySnapshot, control.VerifyArgs{Tag: c.Tag})
	if err != nil {
		return err
	}
	if err := show(s, v, showVerified); err != nil || len(v.Problems) == 0 {
		return err
	}
	return fmt.Errorf("snapshot %s does not agree with its manifest: do not restore it", c.Tag)
}

// showSnapshotCommand reads the manifest of a snapshot, on the node that has it.
type showSnapshotCommand struct {
	Tag string `short:"t" required:"" help:"The snapshot."`
}

// Run prints the manifest, which is JSON.
func (c *showSnapshotCommand) Run(s *session) error {
	return ask(s, control.ShowSnapshot, control.VerifyArgs{Tag: c.Tag}, showManifest)
}

// showManifest prints a manifest as its file contains it.
func showManifest(w io.Writer, m json.RawMessage) error {
	var out bytes.Buffer
	if err := json.Indent(&out, m, "", "  "); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, out.String())
	return err
}

// showVerified prints a line for each file that differs, and a summary.
func showVerified(w io.Writer, v control.Verified) error {
	p := &printer{w: w}
	for _, text := range v.Problems {
		p.line("%s", text)
	}
	p.line("%d files verified, %d problems", v.Files, len(v.Problems))
	if v.Unchecked > 0 {
		p.line("%d files were compared by size only: the manifest has no checksums of them", v.Unchecked)
	}
	return p.err
}

// clearSnapshotCommand requires either a tag or --all; the node refuses both and neither.
type clearSnapshotCommand struct {
	Tag string `short:"t" help:"The snapshot to remove."`
	All bool   `help:"Remove all snapshots."`
}

// Run deletes snapshots.
func (c *clearSnapshotCommand) Run(s *session) error {
	return ask(s, control.ClearSnapshot, control.ClearArgs{Tag: c.Tag, All: c.All},
		func(w io.Writer, gone control.Snapshots) error {
			p := &printer{w: w}
			for _, s := range gone.Snapshots {
				p.line("Removed snapshot %s", s.Tag)
			}
			return p.err
		})
}

// statusBinaryCommand prints the words of nodetool statusbinary.
type statusBinaryCommand struct{}

// Run reports whether CQL clients can connect.
func (c *statusBinaryCommand) Run(s *session) error {
	return ask(s, control.BinaryOf, control.None{}, func(w io.Writer, on control.Switch) error {
		// The reason follows if clients are refused although the server runs.
		state := map[bool]string{true: "running", false: "not running"}[on.On]
		if on.Why != "" {
			state += ": " + on.Why
		}
		_, err := fmt.Fprintln(w, state)
		return err
	})
}

// readyCommand is for health checks in scripts, which test its exit status.
type readyCommand struct{}

// Run fails unless the node serves clients.
func (c *readyCommand) Run(s *session) error {
	// An error gives the exit status that health checks test.
	ready, err := fetch(s, control.ReadyOf, control.None{})
	switch {
	case err != nil:
		return err
	case !ready.On:
		return fmt.Errorf("the node is not ready: %s", ready.Why)
	}
	return show(s, ready, func(w io.Writer, _ control.Switch) error {
		_, err := fmt.Fprintln(w, "ready")
		return err
	})
}

// disableBinaryCommand stops the CQL server. The node stays a member and a replica.
type disableBinaryCommand struct{}

// Run stops the CQL server.
func (c *disableBinaryCommand) Run(s *session) error {
	return ask(s, control.SetBinary, control.Switch{}, quiet[control.Switch])
}

// enableBinaryCommand opens the CQL server. A drained node refuses it.
type enableBinaryCommand struct{}

// Run starts the CQL server.
func (c *enableBinaryCommand) Run(s *session) error {
	return ask(s, control.SetBinary, control.Switch{On: true}, quiet[control.Switch])
}

// statusHandoffCommand prints the words of nodetool statushandoff.
type statusHandoffCommand struct{}

// Run reports whether hinted handoff is enabled.
func (c *statusHandoffCommand) Run(s *session) error {
	return ask(s, control.HandoffOf, control.None{}, func(w io.Writer, on control.Switch) error {
		_, err := fmt.Fprintf(w, "Hinted handoff is %s\n",
			map[bool]string{true: "running", false: "not running"}[on.On])
		return err
	})
}

// disableHandoffCommand lasts until the node is restarted or handoff is enabled.
type disableHandoffCommand struct{}

// Run disables hinted handoff.
func (c *disableHandoffCommand) Run(s *session) error {
	return ask(s, control.SetHandoff, control.Switch{}, quiet[control.Switch])
}

// enableHandoffCommand undoes disablehandoff.
type enableHandoffCommand struct{}

// Run enables hinted handoff.
func (c *enableHandoffCommand) Run(s *session) error {
	return ask(s, control.SetHandoff, control.Switch{On: true}, quiet[control.Switch])
}

// timeoutCommand accepts the kinds of requests that both nodetool and cqld distinguish. kong refuses other words before
// the node is asked.
type timeoutCommand struct {
	Kind string `arg:"" enum:"read,range,write,counterwrite,cascontention,truncate" help:"${enum}."`
}

// Run prints the timeouts of requests to replicas.
func (c *timeoutCommand) Run(s *session) error {
	return ask(s, control.TimeoutsOf, control.None{}, func(w io.Writer, t control.Timeouts) error {
		// The node returns all timeouts; the command prints one.
		_, err := fmt.Fprintf(w, "Current timeout for type %s: %d ms\n", c.Kind, t.Timeouts[c.Kind]/time.Millisecond)
		return err
	})
}

// seedsCommand prints the words of nodetool getseeds.
type seedsCommand struct{}

// Run prints the seeds, without the node itself.
func (c *seedsCommand) Run(s *session) error {
	return ask(s, control.SeedsOf, control.None{}, func(w io.Writer, list control.Seeds) error {
		if len(list.Seeds) == 0 {
			_, err := fmt.Fprintln(w, "Seed node list does not contain any remote node IPs")
			return err
		}
		_, err := fmt.Fprintf(w, "Current list of seed node IPs, excluding the current node's IP: %s\n",
			strings.Join(list.Seeds, " "))
		return err
	})
}

// loggingCommand prints one level, because the node has no per-logger levels. The level is a word that setlogginglevel
// accepts.
type loggingCommand struct{}

// Run prints the log level.
func (c *loggingCommand) Run(s *session) error {
	return ask(s, control.LoggingLevelOf, control.None{}, showLogging)
}

// showLogging prints the table of nodetool getlogginglevels with the root logger as its only row.
func showLogging(w io.Writer, l control.Logging) error {
	t := newTable("Logger Name", "Log Level")
	t.row("ROOT", l.Level)
	return t.print(w)
}

// setLoggingCommand sets the level until the node is restarted.
type setLoggingCommand struct {
	Level string `arg:"" help:"debug, info, warn or error."`
}

// Run sets the log level.
func (c *setLoggingCommand) Run(s *session) error {
	return ask(s, control.SetLoggingLevel, control.Logging{Level: c.Level}, quiet[control.Logging])
}

// reloadSSLCommand also shows expiry dates, so the operator sees whether the new files are in use. Unusable files make
// the operation fail.
type reloadSSLCommand struct{}

// Run makes the node read its certificate files immediately. Without this command, the node reads them some seconds
// after a change.
func (c *reloadSSLCommand) Run(s *session) error {
	return ask(s, control.ReloadSSL, control.None{}, func(out io.Writer, read control.Certificates) error {
		if len(read.Certificates) == 0 {
			fmt.Fprintln(out, "The node has no certificate files: TLS is off.")
		}
		for _, c := range read.Certificates {
			fmt.Fprintf(out, "%s: the certificate expires %s\n", c.Use, c.Expires)
		}
		return nil
	})
}
