package ctl

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"cqld/node/control"
)

// backupCommand groups the commands on backups. Every node of the ring must be able to use the location.
type backupCommand struct {
	Create createBackupCommand `cmd:"" help:"Store the cluster, or some keyspaces and tables."`
	List   listBackupsCommand  `cmd:"" help:"List the backups at a location."`
	Show   showBackupCommand   `cmd:"" help:"Show one backup."`
	Verify verifyBackupCommand `cmd:"" help:"Read a backup and compare it with its manifest."`
	Delete deleteBackupCommand `cmd:"" help:"Delete a backup, and remove what no other backup needs."`

	Schedule scheduleCommand `cmd:"" help:"Make backups at fixed times."`
}

// createBackupCommand starts a job on the node that it is sent to, which leads the backup, and waits for it.
type createBackupCommand struct {
	To     string   `required:"" placeholder:"URL" help:"Location, such as file:///DIR or s3://BUCKET/PREFIX."`
	Name   string   `help:"Name of the backup; default: the current time."`
	Tables []string `arg:"" optional:"" help:"Keyspaces and tables (KEYSPACE.TABLE); default: everything."`
}

// Run makes a backup.
func (c *createBackupCommand) Run(s *session) error {
	return ask(s, control.CreateBackup, control.BackupArgs{Location: c.To, Name: c.Name, Tables: c.Tables}, showBackup)
}

// listBackupsCommand lists all backups of a location, including other clusters' backups.
type listBackupsCommand struct {
	At string `required:"" placeholder:"URL" help:"Location."`
}

// Run lists the backups.
func (c *listBackupsCommand) Run(s *session) error {
	return ask(s, control.ListBackups, control.BackupArgs{Location: c.At}, showBackups)
}

// backupTime is the format of times in tables.
const backupTime = "2006-01-02T15:04:05Z"

// showBackups prints a line for each backup. Stored is what the backup added to the location.
func showBackups(w io.Writer, all control.Backups) error {
	p := &printer{w: w}
	if len(all.Backups) == 0 {
		p.line("There are no backups.")
		return p.err
	}
	t := newTable("Name", "Created", "Cluster", "Content", "Nodes", "Size", "Stored", "Schedule", "State")
	for _, b := range all.Backups {
		state := "complete"
		switch {
		case b.Deleted != nil:
			state = "deleted"
		case b.Problem != "":
			state = b.Problem
		case len(b.Lacks) > 0:
			state = "some nodes had lost data"
		}
		created, content := b.Created.UTC().Format(backupTime), backupContent(&b)
		// Of an incomplete backup, only the name is known.
		if b.Created.IsZero() {
			created, content = "-", "-"
		}
		t.row(b.Name, created, b.Cluster, content, strconv.Itoa(b.Nodes),
			size(b.Size), size(b.Stored), orDash(b.Schedule), state)
	}
	p.table(t)
	// Only the newest backup of a cluster has this value.
	for _, b := range all.Backups {
		if b.MomentsUntil > 0 {
			p.line("Moments after %s until %s can be restored with backup %s.", b.Ended.UTC().Format(momentTime),
				momentOf(b.MomentsUntil), b.Name)
		}
	}
	return p.err
}

// orDash returns a text, or a dash for an empty one.
func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// momentTime is the format of moments.
const momentTime = "2006-01-02T15:04:05.000Z"

// momentOf formats a hybrid time.
func momentOf(at int64) string { return time.UnixMicro(at).UTC().Format(momentTime) }

// backupContent returns the keyspaces and tables of a backup, as given when it was created.
func backupContent(b *control.Backup) string {
	if len(b.Tables) == 0 {
		return "everything"
	}
	return strings.Join(b.Tables, ",")
}

// showBackupCommand shows one backup.
type showBackupCommand struct {
	At   string `required:"" placeholder:"URL" help:"Location."`
	Name string `arg:"" help:"Name of the backup."`
}

// Run shows the backup.
func (c *showBackupCommand) Run(s *session) error {
	return ask(s, control.ListBackups, control.BackupArgs{Location: c.At, Name: c.Name},
		func(w io.Writer, all control.Backups) error {
			// The node refuses a name that does not exist.
			for _, b := range all.Backups {
				if err := showBackup(w, b); err != nil {
					return err
				}
			}
			return nil
		})
}

// showBackup prints the properties of a backup. The backup contains every write that was acknowledged before its
// moment, a time of the hybrid clock.
func showBackup(w io.Writer, b control.Backup) error {
	p := &printer{w: w}
	p.line("Name    : %s", b.Name)
	if b.Problem != "" {
		p.line("Problem : %s", b.Problem)
	}
	if b.Deleted != nil {
		p.line("Deleted : %s", b.Deleted.UTC().Format(backupTime))
	}
	if b.Schedule != "" {
		p.line("By      : schedule %s", b.Schedule)
	}
	// Nothing else is known of an incomplete backup.
	if b.Created.IsZero() {
		return p.err
	}
	p.line("Cluster : %s, %s", b.Cluster, counted(b.Nodes, "node"))
	p.line("Content : %s", backupContent(&b))
	p.line("Moment  : %s", momentOf(b.HybridTime))
	p.line("Made    : in %s, by cqld %s", b.Ended.Sub(b.Created).Round(time.Millisecond), b.Build)
	p.line("Size    : %s in %s; %s new", size(b.Size), counted(b.Files, "file"), size(b.Stored))
	switch {
	case b.MomentsUntil > 0:
		p.line("Moments : after %s until %s can be restored", b.Ended.UTC().Format(momentTime),
			momentOf(b.MomentsUntil))
	case b.NoMoments != "":
		p.line("Moments : %s", b.NoMoments)
	}
	for _, text := range b.Lacks {
		p.line("Lacks   : %s", text)
	}
	return p.err
}

// verifyBackupCommand reads the whole backup.
type verifyBackupCommand struct {
	At   string `required:"" placeholder:"URL" help:"Location."`
	Name string `arg:"" help:"Name of the backup."`
}

// Run compares the backup with its manifest. It fails if they differ, so that scripts can test it.
func (c *verifyBackupCommand) Run(s *session) error {
	v, err := fetch(s, control.VerifyBackup, control.BackupArgs{Location: c.At, Name: c.Name})
	if err != nil {
		return err
	}
	if err := show(s, v, showVerified); err != nil || len(v.Problems) == 0 {
		return err
	}
	return fmt.Errorf("backup %s does not agree with its manifest", c.Name)
}

// deleteBackupCommand deletes one backup. Files that only this backup uses are removed by a later call.
type deleteBackupCommand struct {
	At    string         `required:"" placeholder:"URL" help:"Location."`
	Name  string         `arg:"" help:"Name of the backup."`
	Grace *time.Duration `help:"How long deleted backups are kept; default: 24h. 0s removes them now."`
}

// Run deletes the backup.
func (c *deleteBackupCommand) Run(s *session) error {
	return ask(s, control.DeleteBackup, control.DeleteBackupArgs{Location: c.At, Name: c.Name, Grace: c.Grace},
		func(w io.Writer, swept control.SweptBackups) error {
			p := &printer{w: w}
			p.line("Deleted backup %s", c.Name)
			for _, name := range swept.Removed {
				p.line("Removed backup %s", name)
			}
			p.line("Removed %s of %s; %d more are removed later", counted(swept.Objects, "object"), size(swept.Bytes),
				swept.Kept)
			return p.err
		})
}
