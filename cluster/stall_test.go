package cluster

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestStalledNodeLogsStall(t *testing.T) {
	clock, log := &idleClock{now: time.Hour}, &bytes.Buffer{}
	l := newLoop(&Options{Clock: clock, Logger: slog.New(slog.NewTextHandler(log, nil))})
	passBy := func(d, step time.Duration, do func()) {
		for end := clock.now + d; clock.now < end; {
			clock.now += step
			do()
		}
	}
	l.noteStall(1)
	passBy(10*time.Second, tickEvery, func() { l.noteStall(1) })
	passBy(10*time.Second, time.Duration(ticksIdle)*tickEvery, func() { l.noteStall(ticksIdle) })
	clock.now += stallMin // the tick was on time
	l.noteStall(1)
	if log.Len() > 0 {
		t.Fatalf("a running node reports %s", log)
	}
	clock.now += 2*time.Second + tickEvery
	l.noteStall(1)
	l.noteStall(1)
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "for=2s") {
		t.Errorf("after 2 s: %q", text)
	}
}
