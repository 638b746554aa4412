package ctl

import (
	"context"
	"io"
	"log/slog"
	"testing"

	"cqld/auth"
	"cqld/node/control"
)

// TestScrubRepairsKnownCorruption scrubs a node whose verification finds corrupt files, or whose files are sound but
// whose earlier corruption is not repaired. After an interrupt, the job to follow is the last one.
func TestScrubRepairsKnownCorruption(t *testing.T) {
	dir := t.TempDir()
	socket, err := control.Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	server := control.NewServer(slog.New(slog.DiscardHandler), auth.AllowAll{})
	verified := make(chan control.VerifiedFiles, 1)
	control.Handle(server, control.VerifyFiles, func(_ context.Context, _ control.VerifyFilesArgs,
		report control.Report) (control.VerifiedFiles, error) {
		report(control.Progress{Job: "verification"})
		return <-verified, nil
	})
	repaired := make(chan control.RepairArgs, 1)
	control.Handle(server, control.Repair, func(_ context.Context, a control.RepairArgs,
		report control.Report) (control.RepairResult, error) {
		report(control.Progress{Job: "repair"})
		repaired <- a
		return control.RepairResult{}, nil
	})
	server.Serve(socket, "")
	defer server.Close()
	for _, c := range []struct {
		v   control.VerifiedFiles
		job string
	}{
		{control.VerifiedFiles{Files: 1}, "verification"},
		{control.VerifiedFiles{Files: 1, Corrupt: []string{"000001.sst"}, Unrepaired: true}, "repair"},
		{control.VerifiedFiles{Files: 1, Unrepaired: true}, "repair"},
	} {
		s := &session{ctx: t.Context(), where: &Where{DataDir: dir}, out: io.Discard, progress: io.Discard}
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
