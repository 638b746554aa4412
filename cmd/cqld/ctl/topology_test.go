package ctl

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"

	"cqld/auth"
	"cqld/node/control"
)

// TestCommandReportsOutcomeOfStoppedNode ends the node's process during a decommission: the command succeeds if the
// node had reported that it has left, and fails otherwise, when the ring is unchanged.
func TestCommandReportsOutcomeOfStoppedNode(t *testing.T) {
	for _, committed := range []bool{true, false} {
		dir := t.TempDir()
		l, err := control.Listen(dir)
		if err != nil {
			t.Fatal(err)
		}
		server := control.NewServer(slog.New(slog.DiscardHandler), auth.AllowAll{})
		reported := make(chan struct{}, 2)
		leave := func(ctx context.Context, report control.Report) (control.Departure, error) {
			report(control.Progress{What: "nodes have received their data", Total: 3})
			// too early for any other progress report
			report(control.Progress{What: "the node has left", Committed: committed})
			reported <- struct{}{}
			<-ctx.Done()
			return control.Departure{}, ctx.Err()
		}
		control.Handle(server, control.Decommission, func(ctx context.Context, _ control.ForceArgs,
			report control.Report) (control.Departure, error) {
			return leave(ctx, report)
		})
		control.Handle(server, control.Abort, func(ctx context.Context, _ control.AbortArgs,
			report control.Report) (control.Departure, error) {
			return leave(ctx, report)
		})
		server.Serve(l, "")
		var outs [2]bytes.Buffer
		ended := [2]chan error{make(chan error, 1), make(chan error, 1)}
		ask := func(i int, run func(*session) error) {
			s := &session{ctx: t.Context(), where: &Where{DataDir: dir}, out: &outs[i], progress: io.Discard}
			ended[i] <- run(s)
		}
		go ask(0, (&decommissionCommand{}).Run)
		go ask(1, (&abortCommand{}).Run)
		<-reported
		<-reported
		server.Close()
		for i, end := range ended {
			switch err := <-end; {
			case committed && (err != nil || outs[i].Len() == 0):
				t.Errorf("command %d, after the node has left: %v, %q", i, err, &outs[i])
			case !committed && (!errors.Is(err, control.ErrStopped) || outs[i].Len() != 0):
				t.Errorf("command %d, of a node that was killed: %v, %q", i, err, &outs[i])
			}
		}
	}
}
