package metadata

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// BackupSchedule defines when backups are made, where, and which are kept. Times and durations are in seconds.
//
// It has no state: only the store knows which backups exist, and it survives the cluster (ADR 54). A schedule cannot be
// altered, only dropped and created again.
type BackupSchedule struct {
	// Name is unique, and is part of the backups' names. A later schedule with the same name continues these backups.
	Name     string
	Location string   // a URL without credentials
	Scope    []string `json:",omitempty"` // keyspaces and tables; empty means everything
	// Backups are made at At after midnight UTC, and at all multiples of Every before and after.
	Every int64
	At    int64 `json:",omitempty"`
	// The newest Keep backups, and backups younger than KeepFor, are kept. If both are 0, all are kept. The last good
	// backup is always kept.
	Keep    int   `json:",omitempty"`
	KeepFor int64 `json:",omitempty"`
	Created int64 // by the clock of the proposing node
}

// ScheduleChange adds a backup schedule, or removes the one named Drop. Removing a schedule deletes none of its
// backups.
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
	// scheduleEveryMin and scheduleEveryMax bound the interval in seconds. A backup of a small cluster takes some
	// seconds, and the scheduler wakes up every few seconds.
	scheduleEveryMin = 60
	scheduleEveryMax = 366 * daySeconds
	daySeconds       = 24 * 60 * 60
	// keepMax limits the effect of a mistyped command.
	keepMax = 10_000
)

// Check returns an error if the schedule is invalid. It does not access the location.
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
	// Otherwise the backups would be made at the time At only on some days.
	case s.At > 0 && s.Every%daySeconds != 0 && daySeconds%s.Every != 0:
		return fmt.Errorf("a schedule with a time needs an interval of days, or one that divides a day")
	case s.Keep < 0 || s.Keep > keepMax || s.KeepFor < 0:
		return fmt.Errorf("a schedule keeps at most %d backups, and none for less than no time", keepMax)
	case len(b) > scheduleBytesMax:
		return fmt.Errorf("a schedule has at most %d bytes: name keyspaces instead of tables", scheduleBytesMax)
	}
	return nil
}

// applySchedule adds or removes a backup schedule.
func applySchedule(m *Metadata, c *ScheduleChange) error {
	name := c.Drop
	if c.Add != nil {
		name = c.Add.Name
	}
	at := slices.IndexFunc(m.BackupSchedules, func(s BackupSchedule) bool { return s.Name == name })
	// If two operators add or remove the same schedule, the second one receives an error.
	switch {
	case c.Add == nil && at < 0:
		return &Refused{Reason: fmt.Sprintf("there is no schedule %.70q of backups", name)}
	case c.Add == nil:
		// Clone, because readers share the list of the previous metadata.
		m.BackupSchedules = slices.Delete(slices.Clone(m.BackupSchedules), at, at+1)
		return nil
	case at >= 0:
		return &Refused{Reason: fmt.Sprintf("a schedule %q of backups exists", name)}
	case len(m.BackupSchedules) >= schedulesMax:
		return &Refused{Reason: fmt.Sprintf("there are %d schedules of backups, the maximum: drop one first",
			schedulesMax)}
	}
	// The proposer has checked it as well, but a proposer of another build may have other limits.
	if err := c.Add.Check(); err != nil {
		return &Refused{Reason: err.Error()}
	}
	m.BackupSchedules = append(slices.Clone(m.BackupSchedules), *c.Add)
	return nil
}
