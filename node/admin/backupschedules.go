package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cqld/backup"
	"cqld/backup/schedule"
	"cqld/cluster/metadata"
	"cqld/jobs"
	"cqld/node/backups"
	"cqld/node/control"
)

// CreateSchedule adds a schedule of backups to the metadata. The location is not read: the first backup begins it.
func (b *Backups) CreateSchedule(ctx context.Context, a control.BackupSchedule, _ control.Report) (none control.None,
	err error) {
	// The time is this node's; another node that executes the schedule compares it with its own clock.
	s := &metadata.BackupSchedule{Name: a.Name, Location: a.Location, Scope: a.Tables,
		Every: int64(a.Every / time.Second), At: int64(a.At / time.Second), Keep: a.Keep,
		KeepFor: int64(a.KeepFor / time.Second), Created: b.now().Unix()}
	// Before the name of the first backup, which contains the schedule's.
	if err = s.Check(); err == nil {
		err = b.node.Check(&backups.Creation{Location: a.Location, Name: schedule.BackupName(a.Name, b.now()),
			Scope: a.Tables})
	}
	if err != nil {
		return none, invalidBackup(err)
	}
	return none, b.proposeSchedule(ctx, &metadata.ScheduleChange{Add: s})
}

// DropSchedule removes a schedule. Its backups stay.
func (b *Backups) DropSchedule(ctx context.Context, a control.DropBackupScheduleArgs, _ control.Report) (
	none control.None, err error) {
	return none, b.proposeSchedule(ctx, &metadata.ScheduleChange{Drop: a.Name})
}

// proposeSchedule changes the schedules.
func (b *Backups) proposeSchedule(ctx context.Context, change *metadata.ScheduleChange) error {
	err := b.cluster.ProposeBackupSchedule(ctx, change)
	// A refusal is an answer of the cluster to the operator; other errors are of the cluster itself.
	var refused *metadata.Refused
	if errors.As(err, &refused) {
		return &control.Error{Code: control.Refused, Message: refused.Reason}
	}
	return err
}

// Schedules returns the schedules of the cluster, each with its last good backup, which it reads from the location.
func (b *Backups) Schedules(ctx context.Context, _ control.None, _ control.Report) (out control.BackupSchedules,
	err error) {
	out.Schedules = []control.BackupSchedule{}
	cluster := ClusterID(b.cluster.Metadata())
	// Several schedules may have one location.
	listed := map[string][]backup.Listed{}
	for _, m := range b.cluster.Metadata().BackupSchedules {
		s := control.BackupSchedule{Name: m.Name, Location: m.Location, Tables: m.Scope,
			Every: time.Duration(m.Every) * time.Second, At: time.Duration(m.At) * time.Second, Keep: m.Keep,
			KeepFor: time.Duration(m.KeepFor) * time.Second, Created: time.Unix(m.Created, 0).UTC()}
		all, ok := listed[m.Location]
		if !ok {
			all, err = b.list(ctx, m.Location)
			// The operator has disconnected.
			if err != nil && ctx.Err() != nil {
				return out, ctx.Err()
			}
			if err != nil {
				s.Problem = err.Error()
			} else {
				listed[m.Location] = all
			}
		}
		// Backups are listed from the oldest to the newest.
		last := s.Created
		for _, l := range all {
			of, name, at, ok := schedule.ParseJob(l.Job)
			if ok && of == cluster && name == m.Name && l.Manifest != nil && l.Deleted.IsZero() {
				s.Last, last = &at, at
			}
		}
		s.Overdue = s.Problem == "" && b.now().Sub(last) > 2*s.Every
		out.Schedules = append(out.Schedules, s)
	}
	return out, nil
}

// Overdue returns the schedules whose last good backup is older than two intervals. It is empty on nodes that do not
// execute the schedules.
func (b *Backups) Overdue() (out []control.OverdueSchedule) {
	for _, s := range b.Scheduler.Overview() {
		if s.Overdue {
			out = append(out, control.OverdueSchedule{Name: s.Name, Last: s.Last.UTC()})
		}
	}
	return out
}

// list returns the backups at a location, which may have none yet.
func (b *Backups) list(ctx context.Context, location string) (all []backup.Listed, err error) {
	s, err := b.stores.Open(location)
	if err == nil {
		all, err = s.List(ctx)
	}
	if errors.Is(err, backup.ErrNoStore) {
		err = nil
	}
	return all, err
}

// startScheduled starts the job of a scheduled backup (backups.SchedulerOptions.Start). An operator can cancel it, and
// resume it with the same result as the next attempt of the schedule.
func (b *Backups) startScheduled(m *metadata.BackupSchedule, name, job string) (<-chan struct{}, func() error, error) {
	// An operator's backup has the same arguments, so that the job is resumed in the same way.
	args := createArgs{control.BackupArgs{Location: m.Location, Name: name, Tables: m.Scope}, job}
	// A table of the schedule may have been dropped.
	if err := b.node.Check(args.creation("")); err != nil {
		return nil, nil, err
	}
	target := fmt.Sprintf("%s of schedule %s to %s", name, m.Name, m.Location)
	j, err := b.jobs.begin(jobs.Backup, target, jobs.Bytes, args, b.createWork(args))
	if err != nil {
		return nil, nil, err
	}
	return j.Ended(), func() error {
		s, err := b.jobs.registry.Get(j.ID())
		if err == nil {
			err = s.Err()
		}
		return err
	}, nil
}
