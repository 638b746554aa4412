package ctl

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"cqld/node/control"
)

// restoreCommand starts a job on the node that it contacts, which leads the restore, and waits for it. Table names are
// those in the backup.
type restoreCommand struct {
	RestoreFlags
	As             string `placeholder:"KEYSPACE.TABLE" help:"Another name for the only table."`
	Replace        bool   `help:"Replace tables that exist, in one step, when all rows are restored."`
	FitReplication bool   `help:"Adapt the replication of new keyspaces to the nodes and data centers of this ring."`
	DryRun         bool   `help:"Show what would be restored, and change nothing."`
}

// Run restores tables.
func (c *restoreCommand) Run(s *session) error {
	args, err := c.Args()
	if err != nil {
		return err
	}
	args.As, args.Replace, args.FitReplication, args.DryRun = c.As, c.Replace, c.FitReplication, c.DryRun
	return ask(s, control.RestoreBackup, args, showRestored(c.DryRun))
}

// RestoreFlags select a backup, and what to restore from it. `cqld restore` has them, too.
type RestoreFlags struct {
	From   string   `required:"" placeholder:"URL" help:"Location of the backup."`
	Backup string   `help:"Name of the backup; default: the newest one."`
	Table  []string `placeholder:"NAME" help:"Keyspace or table (KEYSPACE.TABLE); default: everything."`
	At     string   `placeholder:"TIME" help:"Restore the state at a time such as 2026-11-22T10:00:00Z (backup_log)."`
}

// Args returns the arguments of the operation, or an error that names the wrong flag.
func (f *RestoreFlags) Args() (control.RestoreArgs, error) {
	args := control.RestoreArgs{Location: f.From, Name: f.Backup, Tables: f.Table}
	var err error
	if f.At != "" {
		args.At, err = parseMoment(f.At)
	}
	return args, err
}

// FillRing restores a backup to the new ring of `cqld local` in a directory, through its first node, or continues an
// earlier attempt in the same ring. It prints the result to out, and the progress to progress. began reports whether
// the node has created a job, which can be continued after a failure. After an error the caller must stop the nodes.
func FillRing(ctx context.Context, dir string, args control.RestoreArgs, out, progress io.Writer) (began bool,
	err error) {
	s := &session{ctx: ctx, where: &Where{DataDir: dir, Node: 1}, out: out, progress: progress, stops: true}
	all, err := fetch(s, control.ListJobs, control.JobArgs{})
	if err != nil {
		return false, err
	}
	// This ring exists only for the restore, so a job of this kind is an earlier attempt.
	for _, j := range slices.Backward(all.Jobs) {
		if j.Kind == "restore" {
			return true, continueJob(s, &j)
		}
	}
	// A refused plan creates no job, and changes nothing.
	err = ask(s, control.RestoreBackup, args, showRestored(false))
	return s.job != "", err
}

// continueJob resumes a job that has not succeeded, and waits for it.
func continueJob(s *session, j *control.Job) (err error) {
	watched := *j
	// If the process was killed, the job is interrupted and resumable; a detached process may still be running it.
	if j.Resumable {
		if watched, err = fetch(s, control.ResumeJob, control.JobArgs{ID: j.ID}); err != nil {
			return err
		}
	}
	// The job may have ended before the previous caller noticed.
	if watched.State != "done" {
		if watched, err = fetch(s, control.WatchJob, control.JobArgs{ID: j.ID}); err != nil {
			return err
		}
	}
	if watched.State != "done" {
		return fmt.Errorf("job %s is %s: %s", watched.ID, watched.State, watched.Error)
	}
	_, err = fmt.Fprintf(s.out, "Restored %s, in attempt %d\n", watched.Target, watched.Attempt)
	return err
}

// parseMoment parses a moment with a UTC offset, and returns it in microseconds. The offset is required, because the
// time zones of this machine and of the nodes may differ.
func parseMoment(text string) (int64, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err == nil && t.UnixMicro() > 0 {
		return t.UnixMicro(), nil
	}
	if _, local := time.Parse("2006-01-02T15:04:05", text); local == nil {
		return 0, fmt.Errorf("--at %s has no time zone: write %sZ for UTC", text, text)
	}
	return 0, fmt.Errorf("--at %.40q is not a moment such as 2026-11-22T10:00:00Z", text)
}

// showRestored returns a function that prints which tables were restored, or would be.
func showRestored(dryRun bool) func(w io.Writer, r control.Restored) error {
	done, read := "Restored", "were read"
	if dryRun {
		done, read = "Would restore", "would be read"
	}
	return func(w io.Writer, r control.Restored) error {
		p := &printer{w: w}
		p.line("%s %s from backup %s of %s; %s %s", done, counted(len(r.Tables), "table"), r.Name,
			r.Created.UTC().Format(backupTime), size(r.Bytes), read)
		// Nodes of earlier versions return no estimate.
		if dryRun && r.Rate > 0 {
			p.line("It would take about %s: each node would read %s, at %s/s", about(r.Estimate), size(r.NodeBytes),
				size(r.Rate))
		}
		if dryRun {
			p.line("Changes of the schema: %d; of roles: %d", r.Changes, r.Roles)
		}
		if r.At != 0 {
			p.line("State of %s", momentOf(r.At))
		}
		for _, t := range r.Tables {
			p.line("  %s", restoredName(t))
		}
		for _, text := range r.Lacks {
			p.line("The backup lacks data that other replicas may have: %s", text)
		}
		return p.err
	}
}

// about rounds an estimate. The fixed steps of a restore take some seconds.
func about(d time.Duration) time.Duration {
	return max(d.Round(time.Second), 5*time.Second)
}

// restoredName returns the name of a restored table, with its new name if it has one.
func restoredName(t control.RestoredTable) string {
	name := t.From
	if t.From != t.Into {
		name += " as " + t.Into
	}
	if t.Replaces {
		name += ", replacing the table"
	}
	return name
}
