package ctl

import (
	"io"
	"log/slog"
	"testing"

	"cqld/auth"
	"cqld/node/control"
)

// sessionOf returns a session with a node that performs the operations that handle adds. The node ends with the test.
func sessionOf(t *testing.T, handle func(*control.Server)) *session {
	t.Helper()
	dir := t.TempDir()
	socket, err := control.Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	server := control.NewServer(slog.New(slog.DiscardHandler), auth.AllowAll{})
	handle(server)
	server.Serve(socket, "")
	t.Cleanup(server.Close)
	return &session{ctx: t.Context(), where: &Where{DataDir: dir}, out: io.Discard, progress: io.Discard}
}
