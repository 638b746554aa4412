package ctl

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cqld/auth"
	"cqld/node/control"
)

// serve starts a control server in a directory that responds to getseeds with its name.
func serve(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := control.NewServer(slog.New(slog.NewTextHandler(io.Discard, nil)), auth.AllowAll{})
	control.Handle(s, control.SeedsOf, func(context.Context, control.None, control.Report) (control.Seeds, error) {
		return control.Seeds{Seeds: []string{name}}, nil
	})
	l, err := control.Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	s.Serve(l, "")
	t.Cleanup(s.Close)
}

func asked(t *testing.T, w Where) string {
	t.Helper()
	c, err := w.client()
	if err != nil {
		return err.Error()
	}
	r, err := control.Call(t.Context(), c, control.SeedsOf, control.None{}, nil)
	if err != nil {
		return err.Error()
	}
	return r.Seeds[0]
}

func TestNodesAreFoundWhereTheyKeepTheirData(t *testing.T) {
	dir := t.TempDir()
	ring, alone := filepath.Join(dir, "ring"), filepath.Join(dir, "[alone]*")
	serve(t, filepath.Join(ring, "node2", "data"), "two")
	serve(t, filepath.Join(ring, "node3", "data"), "three")
	serve(t, alone, "alone")
	// A socket that remains after a node was killed.
	dead := filepath.Join(ring, "node1", "data")
	if err := os.MkdirAll(dead, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dead, control.SocketName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		where Where
		want  string
	}{
		{Where{DataDir: alone}, "alone"},
		{Where{DataDir: ring}, "two"}, // the first running node
		{Where{DataDir: ring, Node: 3}, "three"},
		{Where{DataDir: ring, Node: 1}, "no node responds at "},
		{Where{DataDir: ring, Node: 9}, "node 9 is not running in "},
		{Where{DataDir: dir}, "no node is running in "},
		{Where{DataDir: filepath.Join(dir, "none")}, " does not exist: set --data-dir"},
		{Where{DataDir: alone, Host: "127.0.0.1"}, "--host: "},
		{Where{DataDir: alone, Host: "127.0.0.1:1"}, "set its path with --token-file"},
	} {
		if got := asked(t, c.where); !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.where, got, c.want)
		}
	}
}
