package backups

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"cqld/backup"
	"cqld/backup/schedule"
	"cqld/cluster/metadata"
	"cqld/internal/env"
)

const (
	// scheduleEvery is how often the scheduler compares the schedules with the time.
	scheduleEvery = 5 * time.Second
	// relistEvery is how often it lists a location again: operators delete backups, too.
	relistEvery = time.Hour
	// storeMax bounds one look at a location, so that one that does not answer does not hold up other schedules.
	storeMax = 5 * time.Minute
	// warnEvery is how often it warns that a schedule has no recent backup.
	warnEvery = time.Hour
)

// SchedulerOptions configure NewScheduler. All fields are required.
type SchedulerOptions struct {
	// Schedules returns the schedules of the cluster, and First reports whether this node has the lowest number of the
	// live members, which executes them. Several nodes may consider themselves the first.
	Schedules func() []metadata.BackupSchedule
	First     func() bool
	Cluster   func() string // identifies the cluster
	Open      func(location string) (*backup.Store, error)
	// Start starts the job of a backup, and returns a channel that is closed at its end. result returns its error then.
	Start func(s *metadata.BackupSchedule, name, job string) (ended <-chan struct{}, result func() error, err error)
	Clock env.Clock
	Log   *slog.Logger
}

// Scheduler makes and deletes the backups of schedules, while its node is the first one. Run is called once; Overview
// may be called at any time.
//
// What a schedule needs is decided by schedule.Decide; the scheduler executes it. It reads the backups of a schedule
// from the location when it begins with the schedule, after each attempt, and each hour. A process that ends loses only
// the number of failures: the next one, or another node, lists the location and continues.
//
// A job that the scheduler has started belongs to the registry of jobs. If the node is no longer the first one, the job
// continues; the node that is the first then begins the same backup, and the store accepts one of both attempts.
type Scheduler struct {
	o SchedulerOptions
	// known are the schedules that this node executes, by name. Only Run uses it.
	known map[string]*known
	mu    struct {
		sync.Mutex
		overview []Overview
	}
}

// known is what the scheduler knows about a schedule.
type known struct {
	created int64 // of the schedule: another one with its name begins from nothing
	state   schedule.State
	listed  time.Duration // monotonic time of the last list; 0 means never
	warned  time.Duration // monotonic time of the last warning; 0 means never
	ended   <-chan struct{}
	result  func() error
}

// Overview says how recent the backups of a schedule are, as far as the scheduler knows: it lists a location at most an
// hour ago, so that a backup that an operator has deleted since then may still be counted.
type Overview struct {
	Name    string
	Last    time.Time // of the last good backup, or of the creation of the schedule
	Overdue bool      // Last is older than two intervals
	Every   time.Duration
}

// NewScheduler returns a scheduler that does not run yet.
func NewScheduler(o SchedulerOptions) *Scheduler { return &Scheduler{o: o, known: map[string]*known{}} }

// Overview returns the schedules that this node executes. On the other nodes, it is empty.
func (s *Scheduler) Overview() []Overview {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.overview
}

// Run executes the schedules until ctx ends.
func (s *Scheduler) Run(ctx context.Context) {
	for env.Pause(s.o.Clock, scheduleEvery, nil, ctx.Done()) {
		s.step(ctx)
	}
}

// step looks at each schedule once.
func (s *Scheduler) step(ctx context.Context) {
	var overview []Overview
	seen := map[string]bool{}
	if s.o.First() {
		for _, m := range s.o.Schedules() {
			seen[m.Name] = true
			k := s.known[m.Name]
			if k == nil || k.created != m.Created {
				k = &known{created: m.Created}
				s.known[m.Name] = k
			}
			s.look(ctx, &m, k)
			if k.listed > 0 {
				overview = append(overview, s.overviewOf(&m, k))
			}
		}
	}
	// A node that becomes the first again lists the backups that others have made. Jobs that it has started continue.
	for name := range s.known {
		if !seen[name] {
			delete(s.known, name)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.overview = overview
}

// timesOf returns a schedule in the form of package schedule.
func timesOf(m *metadata.BackupSchedule) *schedule.Schedule {
	return &schedule.Schedule{Every: time.Duration(m.Every) * time.Second, At: time.Duration(m.At) * time.Second,
		Keep: m.Keep, KeepFor: time.Duration(m.KeepFor) * time.Second, Created: time.Unix(m.Created, 0)}
}

// look does what a schedule needs now.
func (s *Scheduler) look(ctx context.Context, m *metadata.BackupSchedule, k *known) {
	now, log := s.o.Clock.Now().UTC(), s.o.Log.With("schedule", m.Name)
	// The job is the only thing that runs at the same time; no other action is taken meanwhile.
	if k.ended != nil {
		select {
		case <-k.ended:
			s.finished(k, k.result(), now, log)
		default:
			return
		}
	}
	if k.listed == 0 || s.o.Clock.Monotonic()-k.listed >= relistEvery {
		if err := s.list(ctx, m, k); err != nil {
			// A location that is away for long is one warning an hour.
			if k.state.Failures == 0 || !now.Before(k.state.Failed.Add(warnEvery)) {
				log.Warn("the backups of a schedule cannot be listed", "err", err)
				k.state.Failures, k.state.Failed = 1, now
			}
			return
		}
	}
	action := schedule.Decide(timesOf(m), &k.state, now)
	if !action.Make.IsZero() {
		name := schedule.BackupName(m.Name, action.Make)
		ended, result, err := s.o.Start(m, name, schedule.JobName(s.o.Cluster(), m.Name, action.Make))
		// For example, there are too many jobs, or a table of the schedule was dropped.
		if err != nil {
			s.finished(k, err, now, log)
			return
		}
		k.ended, k.result, k.state.Running = ended, result, true
		log.Info("scheduled backup started", "backup", name)
		return
	}
	if len(action.Delete) > 0 {
		if err := s.remove(ctx, m.Location, action.Delete, now, log); err != nil {
			log.Warn("backups of a schedule were not deleted", "err", err)
		}
		// Also those that are being restored leave the list until it is made again.
		s.forget(k, action.Delete)
	}
}

// forget removes backups from the list, so that a deletion that is not possible is repeated with the next list only,
// and not every few seconds. The newest good backup is never among them, so that the schedule does not look overdue.
func (s *Scheduler) forget(k *known, names []string) {
	gone := map[string]bool{}
	for _, name := range names {
		gone[name] = true
	}
	var made []schedule.Made
	for _, m := range k.state.Made {
		if !gone[m.Name] {
			made = append(made, m)
		}
	}
	k.state.Made = made
}

// finished notes the end of an attempt, or that none could be begun. err is nil if the backup was completed.
func (s *Scheduler) finished(k *known, err error, now time.Time, log *slog.Logger) {
	k.ended, k.result, k.state.Running = nil, nil, false
	// The list says whether the backup is good: the attempt of another node may have completed it.
	k.listed = 0
	if err == nil {
		k.state.Failures = 0
		return
	}
	k.state.Failures, k.state.Failed = k.state.Failures+1, now
	log.Warn("scheduled backup failed; it is repeated", "failures", k.state.Failures, "err", err)
}

// list reads the backups of a schedule from its location. One without backups is no error: the first backup begins it.
// Deleted backups, and backups of operators, other schedules and other clusters, are left out.
func (s *Scheduler) list(ctx context.Context, m *metadata.BackupSchedule, k *known) error {
	ctx, cancel := context.WithTimeout(ctx, storeMax)
	defer cancel()
	store, err := s.o.Open(m.Location)
	if err != nil {
		return err
	}
	all, err := store.List(ctx)
	if err != nil && !errors.Is(err, backup.ErrNoStore) {
		return err
	}
	k.state.Made = nil
	// The name of a backup may be one that an operator has chosen; the job is not.
	for _, l := range all {
		cluster, name, at, ok := schedule.ParseJob(l.Job)
		if ok && cluster == s.o.Cluster() && name == m.Name && l.Deleted.IsZero() {
			k.state.Made = append(k.state.Made, schedule.Made{Name: l.Name, Time: at, Good: l.Manifest != nil})
		}
	}
	k.listed = s.o.Clock.Monotonic()
	return nil
}

// remove deletes backups that are not being restored, and removes what was deleted longer ago than the grace.
func (s *Scheduler) remove(ctx context.Context, location string, names []string, now time.Time,
	log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, storeMax)
	defer cancel()
	store, err := s.o.Open(location)
	if err != nil {
		return err
	}
	// The rest is deleted after the next list if one cannot be.
	for _, name := range names {
		deleted, err := store.DeleteUnheld(ctx, name, now)
		if err != nil {
			return err
		}
		log.Info("backup of a schedule expired", "backup", name, "deleted", deleted)
	}
	_, err = store.Sweep(ctx, now, backup.Grace)
	// Another node removes them.
	if errors.Is(err, backup.ErrSweeping) {
		err = nil
	}
	return err
}

// overviewOf returns how recent the backups of a schedule are, and warns if they are old.
func (s *Scheduler) overviewOf(m *metadata.BackupSchedule, k *known) Overview {
	// A schedule without a backup is compared with its creation.
	times, now := timesOf(m), s.o.Clock.Now()
	o := Overview{Name: m.Name, Last: times.Last(&k.state), Overdue: times.Overdue(&k.state, now), Every: times.Every}
	if o.Overdue && (k.warned == 0 || s.o.Clock.Monotonic()-k.warned >= warnEvery) {
		k.warned = s.o.Clock.Monotonic()
		s.o.Log.Warn("the last good backup of a schedule is older than two intervals", "schedule", m.Name, "last",
			o.Last.UTC(), "interval", o.Every)
	}
	return o
}
