package main

import (
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestNotifySendsTheState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	notify(stateReady, slog.New(slog.DiscardHandler))
	if err := l.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	n, err := l.Read(b)
	if err != nil || string(b[:n]) != "READY=1" {
		t.Fatalf("%q, %v", b[:n], err)
	}
}

func TestNotifyWithoutSupervisor(t *testing.T) {
	var log strings.Builder
	t.Setenv("NOTIFY_SOCKET", "")
	notify(stateReady, slog.New(slog.NewTextHandler(&log, nil)))
	if log.Len() > 0 {
		t.Error("logged:", log.String())
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	notify(stateStopping, slog.New(slog.NewTextHandler(&log, nil)))
	if !strings.Contains(log.String(), "systemd not notified") {
		t.Errorf("a missing socket: %q", log.String())
	}
}
