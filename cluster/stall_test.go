package cluster

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestStalledNodeLogsStall(t *testing.T) {
	clock, log := &manualClock{now: time.Hour}, &bytes.Buffer{}
	c := &Cluster{opts: Options{Clock: clock, Logger: slog.New(slog.NewTextHandler(log, nil))}}
	c.noteStall(1)
	clock.passBy(10*time.Second, tickEvery, func() { c.noteStall(1) })
	clock.passBy(10*time.Second, time.Duration(ticksIdle)*tickEvery, func() { c.noteStall(ticksIdle) })
	clock.now += stallMin // the tick was on time
	c.noteStall(1)
	if log.Len() > 0 {
		t.Fatalf("a running node reports %s", log)
	}
	clock.now += 2*time.Second + tickEvery
	c.noteStall(1)
	c.noteStall(1)
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "for=2s") {
		t.Errorf("after 2 s: %q", text)
	}
}
