package ctl

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"cqld/node/control"
)

// scheduleCommand groups the commands on schedules of backups. A schedule belongs to the cluster, so the commands have
// the same result on every node:
//
//	cqld ctl backup schedule create --to file:///mnt/backups --every 24h --at 02:00 --keep 7 nightly
//	cqld ctl backup schedule list
//	cqld ctl backup schedule drop nightly
type scheduleCommand struct {
	Create createScheduleCommand `cmd:"" help:"Make backups at fixed times, and delete old ones of the schedule."`
	List   listSchedulesCommand  `cmd:"" help:"List the schedules, with the last good backup of each."`
	Drop   dropScheduleCommand   `cmd:"" help:"Remove a schedule. Its backups stay."`
}

// createScheduleCommand adds a schedule to the cluster's metadata. Flags have the same names as in backup create.
type createScheduleCommand struct {
	To      string        `required:"" placeholder:"URL" help:"Location, as for backup create."`
	Every   time.Duration `required:"" placeholder:"DURATION" help:"Interval, such as 6h; at least 1m."`
	At      string        `placeholder:"HH:MM" help:"Time in UTC of one of the backups; default: 00:00."`
	Keep    int           `placeholder:"N" help:"Keep the newest N backups."`
	KeepFor time.Duration `placeholder:"DURATION" help:"Keep backups that are younger; default: all, without --keep."`
	Name    string        `arg:"" help:"Name of the schedule."`
	Tables  []string      `arg:"" optional:"" help:"Keyspaces and tables (KEYSPACE.TABLE); default: everything."`
}

// Run adds the schedule.
func (c *createScheduleCommand) Run(s *session) error {
	at, err := timeOfDay(c.At)
	if err != nil {
		return err
	}
	args := control.BackupSchedule{Name: c.Name, Location: c.To, Tables: c.Tables, Every: c.Every, At: at, Keep: c.Keep,
		KeepFor: c.KeepFor}
	return ask(s, control.CreateBackupSchedule, args, func(w io.Writer, _ control.None) error {
		p := &printer{w: w}
		p.line("Created schedule %s", c.Name)
		return p.err
	})
}

// timeOfDay returns the time after midnight of a text such as 02:30. An empty text is midnight.
func timeOfDay(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	// Seconds and time zones are refused.
	t, err := time.Parse("15:04", text)
	if err != nil {
		return 0, fmt.Errorf("%.20q is not a time such as 02:30", text)
	}
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, nil
}

// listSchedulesCommand lists the schedules of the cluster.
type listSchedulesCommand struct{}

// Run lists the schedules.
func (c *listSchedulesCommand) Run(s *session) error {
	return ask(s, control.ListBackupSchedules, control.None{}, showSchedules)
}

// showSchedules prints a line for each schedule. The state column names a problem, or "good".
func showSchedules(w io.Writer, all control.BackupSchedules) error {
	p := &printer{w: w}
	if len(all.Schedules) == 0 {
		p.line("There are no schedules.")
		return p.err
	}
	t := newTable("Name", "Every", "At", "Keep", "Content", "Location", "Last backup", "State")
	for _, s := range all.Schedules {
		// Without a backup, the state is good until two intervals have passed.
		last, state, content := "-", "good", "everything"
		if s.Last != nil {
			last = s.Last.UTC().Format(backupTime)
		} else {
			state = "no backup yet"
		}
		switch {
		case s.Problem != "":
			state = s.Problem
		case s.Overdue:
			state = "overdue"
		}
		if len(s.Tables) > 0 {
			content = strings.Join(s.Tables, ",")
		}
		t.row(s.Name, shortDuration(s.Every), time.Time{}.Add(s.At).Format("15:04"), kept(&s), content, s.Location,
			last, state)
	}
	p.table(t)
	return p.err
}

// kept returns which backups a schedule keeps.
func kept(s *control.BackupSchedule) string {
	var parts []string
	if s.Keep > 0 {
		parts = append(parts, strconv.Itoa(s.Keep))
	}
	if s.KeepFor > 0 {
		parts = append(parts, shortDuration(s.KeepFor))
	}
	if len(parts) == 0 {
		return "all"
	}
	return strings.Join(parts, ",")
}

// shortDuration formats a duration without trailing zero units: 6h instead of 6h0m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	// Minutes are removed only after seconds: 1h0m5s stays.
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// dropScheduleCommand removes a schedule from the metadata of the cluster.
type dropScheduleCommand struct {
	Name string `arg:"" help:"Name of the schedule."`
}

// Run removes the schedule.
func (c *dropScheduleCommand) Run(s *session) error {
	return ask(s, control.DropBackupSchedule, control.DropBackupScheduleArgs{Name: c.Name},
		func(w io.Writer, _ control.None) error {
			p := &printer{w: w}
			p.line("Dropped schedule %s", c.Name)
			return p.err
		})
}
