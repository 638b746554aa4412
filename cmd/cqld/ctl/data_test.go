package ctl

import (
	"context"
	"testing"

	"cqld/node/control"
)

// TestScrubRepairsKnownCorruption scrubs a node whose verification finds corrupt files, or whose files are sound but
// whose earlier corruption is not repaired. After an interrupt, the job to follow is the last one.
func TestScrubRepairsKnownCorruption(t *testing.T) {
	verified, repaired := make(chan control.VerifiedFiles, 1), make(chan control.RepairArgs, 1)
	s := sessionOf(t, func(server *control.Server) {
		control.Handle(server, control.VerifyFiles, func(_ context.Context, _ control.VerifyFilesArgs,
			report control.Report) (control.VerifiedFiles, error) {
			report(control.Progress{Job: "verification"})
			return <-verified, nil
		})
		control.Handle(server, control.Repair, func(_ context.Context, a control.RepairArgs,
			report control.Report) (control.RepairResult, error) {
			report(control.Progress{Job: "repair"})
			repaired <- a
			return control.RepairResult{}, nil
		})
	})
	for _, c := range []struct {
		v   control.VerifiedFiles
		job string
	}{
		{control.VerifiedFiles{Files: 1}, "verification"},
		{control.VerifiedFiles{Files: 1, Corrupt: []string{"000001.sst"}, Unrepaired: true}, "repair"},
		{control.VerifiedFiles{Files: 1, Unrepaired: true}, "repair"},
	} {
		verified <- c.v
		if err := new(scrubCommand).Run(s); err != nil {
			t.Fatalf("%+v: %v", c.v, err)
		}
		if s.job != c.job {
			t.Errorf("%+v: the last job is %q, want %q", c.v, s.job, c.job)
		}
		select {
		case a := <-repaired:
			if c.job != "repair" || !a.Corrupted || a.Keyspace != "" {
				t.Errorf("%+v: repaired %+v", c.v, a)
			}
		default:
			if c.job == "repair" {
				t.Errorf("%+v: no repair", c.v)
			}
		}
	}
}
