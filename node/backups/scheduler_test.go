package backups

import (
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/backup"
	"cqld/backup/schedule"
	"cqld/cluster/metadata"
	"cqld/ring"
)

// makeGood makes a backup without files, as a job.
func makeGood(t *testing.T, s *backup.Store, name, job string, now time.Time) error {
	t.Helper()
	w := backup.Started{Name: name, Job: job, Created: now, Nonce: "1"}
	complete, err := s.Start(t.Context(), w)
	if err != nil || complete != nil {
		return err
	}
	o, err := s.PutBytes(t.Context(), []byte("schema"))
	if err != nil {
		return err
	}
	share := backup.Share{Node: 1, Host: "h"}
	if err := s.PutShare(t.Context(), name, &share); err != nil {
		return err
	}
	return s.Complete(t.Context(), &backup.Manifest{Name: name, Job: job, Created: now, Catalog: o,
		Members: []backup.Member{{ID: 1, Host: "h", Tokens: []ring.Token{1}}}, Shares: []backup.Share{share}}, w.Nonce)
}

// TestSchedulerKeepsBackups runs a scheduler for some hours, with a failure, a restoration from the oldest backup, a
// backup of an operator, and a time in which another node is the first.
func TestSchedulerKeepsBackups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		if err := disk.MkdirAll("/backups", 0o700); err != nil {
			t.Fatal(err)
		}
		places := backup.Places{Disk: disk}
		store, err := places.Open("file:///backups")
		if err != nil {
			t.Fatal(err)
		}
		first, failures, attempts := true, 2, 0
		m := metadata.BackupSchedule{Name: "hourly", Location: "file:///backups", Every: 3600, Keep: 2,
			Created: time.Now().Unix()}
		s := NewScheduler(SchedulerOptions{Schedules: func() []metadata.BackupSchedule {
			return []metadata.BackupSchedule{m}
		}, First: func() bool { return first }, Cluster: func() string { return "c" }, Open: places.Open,
			Start: func(_ *metadata.BackupSchedule, name, job string) (<-chan struct{}, func() error, error) {
				attempts++
				ended := make(chan struct{})
				close(ended)
				if failures > 0 {
					failures--
					return ended, func() error { return errors.New("a node is down") }, nil
				}
				err := makeGood(t, store, name, job, time.Now().UTC())
				return ended, func() error { return err }, nil
			}, Clock: bubble{time.Now()}, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
		// names returns the names of the backups that were not deleted.
		names := func() string {
			all, err := store.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, l := range all {
				if l.Deleted.IsZero() {
					names = append(names, l.Name)
				}
			}
			return strings.Join(names, " ")
		}
		name := func(hours int) string {
			at := time.Unix(m.Created, 0).UTC().Truncate(time.Hour)
			return schedule.BackupName("hourly", at.Add(time.Duration(hours)*time.Hour))
		}
		pass := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(scheduleEvery) {
				s.step(t.Context())
			}
		}
		if err := makeGood(t, store, "manual", "K3JQ", time.Now().UTC()); err != nil {
			t.Fatal(err)
		}
		pass(time.Hour + 2*time.Minute)
		if got := names(); attempts != 2 || got != "manual" {
			t.Fatalf("after two minutes with failures: %d attempts, %s", attempts, got)
		}
		pass(2 * time.Minute)
		if got := names(); attempts != 3 || got != "manual "+name(1) {
			t.Fatalf("after the third attempt: %d attempts, %s", attempts, got)
		}
		if err := store.Hold(t.Context(), name(1), "R1", time.Now().UTC()); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Hour)
		if got := names(); got != "manual "+name(1)+" "+name(2)+" "+name(3) {
			t.Fatalf("while the first is restored: %s", got)
		}
		if err := store.Release(t.Context(), name(1), "R1"); err != nil {
			t.Fatal(err)
		}
		first = false
		pass(3 * time.Hour)
		if o := s.Overview(); len(o) != 0 {
			t.Errorf("another node is the first: %+v", o)
		}
		// Its absence was longer than two intervals; one backup makes up for three times.
		first = true
		before := attempts
		pass(time.Minute)
		if got := names(); attempts != before+1 || got != "manual "+name(3)+" "+name(6) {
			t.Errorf("after three hours: %d attempts, %s", attempts-before, got)
		}
		if o := s.Overview(); len(o) != 1 || o[0].Overdue || o[0].Last.Format("15") != time.Now().UTC().Format("15") {
			t.Errorf("%+v", o)
		}
		failures = 1 << 20
		pass(3 * time.Hour)
		if o := s.Overview(); len(o) != 1 || !o[0].Overdue {
			t.Errorf("after three hours of failures: %+v", o)
		}
		if got := names(); got != "manual "+name(3)+" "+name(6) {
			t.Errorf("after three hours of failures: %s", got)
		}
	})
}
