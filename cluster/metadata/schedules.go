package metadata

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// BackupSchedule says when backups are made, where, and which of them are kept. Times and durations are in seconds.
//
// It has no state: which backups exist is in the store only, which survives the cluster (ADR 54). It is not changed: a
// schedule is dropped, and one with the same name is created.
type BackupSchedule struct {
	// Name is unique, and part of the names of the backups. A later schedule with the name continues with them.
	Name     string
	Location string   // a URL without credentials
	Scope    []string `json:",omitempty"` // keyspaces and tables; empty means everything
	// Backups are made at At after midnight UTC, and at all distances of Every before and after.
	Every int64
	At    int64 `json:",omitempty"`
	// The newest Keep backups, and those that are younger than KeepFor, are kept. If both are 0, all are.
	// The last good backup is always kept.
	Keep    int   `json:",omitempty"`
	KeepFor int64 `json:",omitempty"`
	Created int64 // by the clock of the proposing node
}

// ScheduleChange adds a schedule of backups, or removes the one with the name Drop. Removing a schedule deletes none of
// its backups.
type ScheduleChange struct {
	Add  *BackupSchedule `json:",omitempty"`
	Drop string          `json:",omitempty"`
}

const (
	// schedulesMax bounds the schedules of a cluster, and scheduleBytesMax the encoded form of one: all of them are in
	// each snapshot of the metadata.
	schedulesMax     = 64
	scheduleBytesMax = 16 << 10
	scheduleNameMax  = 60
	// A backup of a small cluster takes some seconds, and the scheduler looks every few seconds.
	// scheduleEveryMin and scheduleEveryMax bound intervals, in seconds.
	scheduleEveryMin = 60
	scheduleEveryMax = 366 * daySeconds
	daySeconds       = 24 * 60 * 60
	// keepMax bounds what a mistyped command keeps.
	keepMax = 10_000
)

// Check returns why the schedule is not a valid one. It does not read the location.
func (s *BackupSchedule) Check() error {
	// The name is part of paths in the store.
	bad := strings.ContainsFunc(s.Name, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		return !letter && (r < '0' || r > '9') && r != '_' && r != '-'
	})
	switch b, err := json.Marshal(s); {
	case err != nil:
		return err
	case bad || s.Name == "" || s.Name[0] == '-' || len(s.Name) > scheduleNameMax:
		return fmt.Errorf("%.70q is not a valid name of a schedule: use at most %d letters, digits, _ and -", s.Name,
			scheduleNameMax)
	case s.Every < scheduleEveryMin || s.Every > scheduleEveryMax:
		return fmt.Errorf("the interval of a schedule is at least 1 minute and at most 366 days")
	case s.At < 0 || s.At >= daySeconds:
		return fmt.Errorf("the time of a schedule is from 00:00 to 23:59")
	// Otherwise the time would be of some days only.
	case s.At > 0 && s.Every%daySeconds != 0 && daySeconds%s.Every != 0:
		return fmt.Errorf("a schedule with a time needs an interval of days, or one that divides a day")
	case s.Keep < 0 || s.Keep > keepMax || s.KeepFor < 0:
		return fmt.Errorf("a schedule keeps at most %d backups, and none for less than no time", keepMax)
	case len(b) > scheduleBytesMax:
		return fmt.Errorf("a schedule has at most %d bytes: name keyspaces instead of tables", scheduleBytesMax)
	}
	return nil
}

// applySchedule adds or removes a schedule. A schedule is not changed: one is dropped and created again.
func applySchedule(m *Metadata, c *ScheduleChange) error {
	name := c.Drop
	if c.Add != nil {
		name = c.Add.Name
	}
	at := slices.IndexFunc(m.BackupSchedules, func(s BackupSchedule) bool { return s.Name == name })
	// Two operators may add or remove the same schedule: the second one learns it.
	switch {
	case c.Add == nil && at < 0:
		return &Refused{Reason: fmt.Sprintf("there is no schedule %.70q of backups", name)}
	case c.Add == nil:
		// Readers share the list of the metadata before the command.
		m.BackupSchedules = slices.Delete(slices.Clone(m.BackupSchedules), at, at+1)
		return nil
	case at >= 0:
		return &Refused{Reason: fmt.Sprintf("a schedule %q of backups exists", name)}
	case len(m.BackupSchedules) >= schedulesMax:
		return &Refused{Reason: fmt.Sprintf("there are %d schedules of backups, the maximum: drop one first",
			schedulesMax)}
	}
	// The proposer has checked it as well; a command of another build may have other bounds.
	if err := c.Add.Check(); err != nil {
		return &Refused{Reason: err.Error()}
	}
	m.BackupSchedules = append(slices.Clone(m.BackupSchedules), *c.Add)
	return nil
}
