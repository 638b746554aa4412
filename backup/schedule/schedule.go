package schedule

import (
	"slices"
	"strings"
	"time"
)

// Schedule says when backups are made, and which are kept.
type Schedule struct {
	// Backups are made at At after midnight UTC, and at all distances of Every before and after.
	Every, At time.Duration
	// The newest Keep backups, and those that are younger than KeepFor, are kept. If both are 0, all are.
	Keep    int
	KeepFor time.Duration
	Created time.Time
}

// Made is a backup of a schedule. One that is not good was not completed, or cannot be read.
type Made struct {
	Name string
	Time time.Time // for which it was made
	Good bool
}

// State is what is known about a schedule.
type State struct {
	Made    []Made
	Running bool // a backup is being made
	// Failures is the number of attempts since the last one that succeeded, and Failed the time of the last of them.
	Failures int
	Failed   time.Time
}

// Action is what to do now: make the backup for a time unless that is zero, and delete backups.
type Action struct {
	Make   time.Time
	Delete []string
}

const (
	// retryMin is the pause after the first failed attempt. Each further one doubles it, up to retryMax.
	retryMin = time.Minute
	retryMax = 30 * time.Minute
)

// Latest returns the last time for a backup that is not after now.
func (s *Schedule) Latest(now time.Time) time.Time {
	// Times are counted from midnight of a fixed day: a restart or another node does not move them.
	passed := now.Sub(time.Unix(0, 0).Add(s.At))
	n := passed / s.Every
	if passed < 0 && passed%s.Every != 0 {
		n--
	}
	return time.Unix(0, 0).UTC().Add(s.At + n*s.Every)
}

// Decide returns what to do now. A time that was missed is made up for once, also if several were missed.
func Decide(s *Schedule, state *State, now time.Time) (a Action) {
	if state.Running {
		return a
	}
	due := s.Latest(now)
	// If the clock has gone back, the newest backup is of a later time.
	done := slices.ContainsFunc(state.Made, func(m Made) bool { return m.Good && !m.Time.Before(due) })
	if due.After(s.Created) && !done && !now.Before(state.Failed.Add(pause(state.Failures))) {
		// Backups are deleted when the new one is there.
		return Action{Make: due}
	}
	return Action{Delete: s.expired(state.Made, now)}
}

// pause returns how long to wait after a number of failures.
func pause(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	return min(retryMin<<min(failures-1, 10), retryMax)
}

// expired returns the backups that need not be kept: those beyond both bounds, and attempts that were not completed
// and that a later backup replaces. The newest good backup is always kept, and none is deleted without one.
func (s *Schedule) expired(made []Made, now time.Time) (names []string) {
	// A store lists backups by the time at which they were made, which is later for a time that was missed.
	newest := slices.Clone(made)
	slices.SortFunc(newest, func(a, b Made) int { return b.Time.Compare(a.Time) })
	good := 0
	// From the newest to the oldest: good counts those that are not older.
	for _, m := range newest {
		if m.Good {
			good++
		}
		counted := s.Keep > 0 && good <= s.Keep
		young := s.KeepFor > 0 && now.Sub(m.Time) < s.KeepFor
		all := s.Keep == 0 && s.KeepFor == 0
		if m.Good && good > 1 && !counted && !young && !all || !m.Good && good > 0 {
			names = append(names, m.Name)
		}
	}
	return names
}

// Last returns the time of the newest good backup, or the time at which the schedule was created.
func (s *Schedule) Last(state *State) time.Time {
	last := s.Created
	for _, m := range state.Made {
		if m.Good && m.Time.After(last) {
			last = m.Time
		}
	}
	return last
}

// Overdue reports whether the last good backup is older than two intervals.
func (s *Schedule) Overdue(state *State, now time.Time) bool {
	return now.Sub(s.Last(state)) > 2*s.Every
}

// timeForm is the form of times in names.
const timeForm = "20060102T150405Z"

// BackupName returns the name of a backup.
func BackupName(schedule string, at time.Time) string {
	return schedule + "-" + at.UTC().Format(timeForm)
}

// jobPrefix precedes the names of jobs of schedules. Jobs of operators have random names without a slash.
const jobPrefix = "schedule/"

// JobName returns the name of the job that makes a backup. It contains the cluster, because two clusters may have a
// schedule with the same name and location.
func JobName(cluster, schedule string, at time.Time) string {
	return jobPrefix + cluster + "/" + schedule + "/" + at.UTC().Format(timeForm)
}

// ParseJob returns the cluster, the schedule and the time of a job's name. ok is false for jobs of operators.
func ParseJob(job string) (cluster, schedule string, at time.Time, ok bool) {
	parts := strings.Split(job, "/")
	if len(parts) != 4 || parts[0]+"/" != jobPrefix {
		return "", "", at, false
	}
	at, err := time.Parse(timeForm, parts[3])
	return parts[1], parts[2], at, err == nil
}
