package loglimit

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// clock is a time that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newTestLog() (*slog.Logger, *Handler, *clock, *bytes.Buffer) {
	out := new(bytes.Buffer)
	c := &clock{now: time.Unix(1_000, 0)}
	h := New(slog.NewTextHandler(out, nil), c.Now)
	return slog.New(h), h, c, out
}

var repeatedAttr = regexp.MustCompile(`repeated=(\d+)`)

// TestEveryRecordIsCounted logs random messages over a random time. Each message appears at most burst+1 times in a
// period, and its lines and counts add up to the number of its records.
func TestEveryRecordIsCounted(t *testing.T) {
	for seed := range uint64(50) {
		log, h, c, out := newTestLog()
		rng := rand.New(rand.NewPCG(seed, 1))
		logged := map[string]int{}
		periods := 1
		for range 2_000 {
			text := fmt.Sprintf("failure %d", rng.IntN(4))
			logged[text]++
			log.With("part", "storage").Error(text, "err", rng.IntN(100))
			if rng.IntN(100) == 0 {
				c.pass(time.Duration(rng.IntN(12)) * time.Second)
				periods++
			}
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		for text, want := range logged {
			got, lines := 0, 0
			for line := range strings.Lines(out.String()) {
				if !strings.Contains(line, strconv.Quote(text)) {
					continue
				}
				lines++
				if m := repeatedAttr.FindStringSubmatch(line); m != nil {
					n, _ := strconv.Atoi(m[1])
					got += n
				} else {
					got++
				}
				if !strings.Contains(line, "part=storage") {
					t.Errorf("an attribute of the logger is missing: %s", line)
				}
			}
			if got != want {
				t.Errorf("seed %d: %q was logged %d times, and the log has %d", seed, text, want, got)
			}
			if lines > periods*(burst+1) {
				t.Errorf("seed %d: %q has %d lines in at most %d periods", seed, text, lines, periods)
			}
		}
	}
}

func TestLowerLevelsPass(t *testing.T) {
	log, _, _, out := newTestLog()
	for range 100 {
		log.Info("node is up")
	}
	if n := strings.Count(out.String(), "node is up"); n != 100 {
		t.Errorf("%d of 100 records at the level INFO", n)
	}
}

// TestMessagesAreBounded logs messages that contain values. The memory and the log stay bounded.
func TestMessagesAreBounded(t *testing.T) {
	log, h, _, out := newTestLog()
	for i := range 10_000 {
		log.Warn(fmt.Sprintf("request %d failed", i))
	}
	if n := len(h.state.messages); n > messagesMax+1 {
		t.Errorf("%d messages are counted", n)
	}
	if n := bytes.Count(out.Bytes(), []byte("\n")); n > messagesMax+burst {
		t.Errorf("%d lines", n)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("repeated=%d", 10_000-messagesMax-burst); !strings.Contains(out.String(), want) {
		t.Errorf("the log does not say %s", want)
	}
}
