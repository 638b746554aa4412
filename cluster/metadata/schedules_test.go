package metadata

import (
	"reflect"
	"strings"
	"testing"
)

// TestSchedulesOfBackups adds and removes schedules, in the metadata and in their encoded form.
func TestSchedulesOfBackups(t *testing.T) {
	m, index := Empty(), uint64(0)
	change := func(c ScheduleChange) error {
		t.Helper()
		index++
		next, err := Apply(m, &Command{ID: CommandID{byte(index), byte(index >> 8)}, BackupSchedule: &c}, index)
		m = next
		return err
	}
	valid := func() *BackupSchedule {
		return &BackupSchedule{Name: "nightly", Location: "file:///a", Every: daySeconds, At: 7200, Keep: 3}
	}
	if err := change(ScheduleChange{Add: valid()}); err != nil {
		t.Fatal(err)
	}
	before := m
	if err := change(ScheduleChange{Add: valid()}); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("the same schedule: %v", err)
	}
	if err := change(ScheduleChange{Drop: "other"}); err == nil ||
		!strings.Contains(err.Error(), "there is no schedule") {
		t.Errorf("an unknown schedule: %v", err)
	}
	for what, edit := range map[string]func(*BackupSchedule){
		"a short interval":   func(s *BackupSchedule) { s.Every = 59 },
		"a long interval":    func(s *BackupSchedule) { s.Every = scheduleEveryMax + 1 },
		"a time of no day":   func(s *BackupSchedule) { s.At = daySeconds },
		"a time that drifts": func(s *BackupSchedule) { s.Every = 7 * 3600 },
		"a negative number":  func(s *BackupSchedule) { s.Keep = -1 },
		"a hostile name":     func(s *BackupSchedule) { s.Name = "../a" },
		"no name":            func(s *BackupSchedule) { s.Name = "" },
		"a long name":        func(s *BackupSchedule) { s.Name = strings.Repeat("a", scheduleNameMax+1) },
		"many tables":        func(s *BackupSchedule) { s.Scope = []string{strings.Repeat("a", scheduleBytesMax)} },
	} {
		s := valid()
		s.Name = "another"
		edit(s)
		if err := change(ScheduleChange{Add: s}); err == nil {
			t.Errorf("%s was accepted", what)
		}
	}
	if !reflect.DeepEqual(m.BackupSchedules, before.BackupSchedules) {
		t.Errorf("refused commands have changed %+v", m.BackupSchedules)
	}
	for i := range schedulesMax {
		s := valid()
		s.Name = "s" + strings.Repeat("a", i%50) + string(rune('a'+i/50))
		if err := change(ScheduleChange{Add: s}); (err == nil) != (i < schedulesMax-1) {
			t.Fatalf("schedule %d: %v", i+2, err)
		}
	}
	b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := Decode(b)
	if err != nil || !reflect.DeepEqual(decoded.BackupSchedules, m.BackupSchedules) {
		t.Errorf("decoded %+v, %v", decoded, err)
	}
	if err := change(ScheduleChange{Drop: "nightly"}); err != nil || len(m.BackupSchedules) != schedulesMax-1 {
		t.Errorf("%d schedules, %v", len(m.BackupSchedules), err)
	}
}
