package ctl

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"cqld/node/control"
)

// bar draws how far a long operation is: on a terminal one line that is drawn again, elsewhere a line
// every few seconds.
type bar struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	drawn    bool
	began    time.Time
	last     time.Time
	text     string        // the last line
	jobEvery time.Duration // between lines about a job, where no terminal is
	done     int64         // of the last progress
	moved    time.Duration // since began, when done changed last
}

const (
	barWidth = 30
	// barEvery is how often a line is printed where no terminal is, jobEvery the same for jobs, if the line has changed.
	barEvery = 5 * time.Second
	jobEvery = time.Second
)

func newBar(w io.Writer) *bar {
	now := time.Now()
	b := &bar{w: w, began: now, last: now, jobEvery: jobEvery}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil {
			b.terminal = info.Mode()&os.ModeCharDevice != 0
		}
	}
	return b
}

func (b *bar) show(p control.Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	passed := time.Since(b.began)
	if p.Done != b.done {
		b.done, b.moved = p.Done, passed
	}
	line := drawing(p, passed, b.moved)
	if b.terminal {
		fmt.Fprintf(b.w, "\r\x1b[K%s", line)
		b.drawn = true
		return
	}
	now, every := time.Now(), barEvery
	if p.Unit != "" && line != b.text {
		every = b.jobEvery
	}
	if now.Sub(b.last) >= every {
		b.last, b.text = now, line
		fmt.Fprintln(b.w, line)
	}
}

// end leaves the line to what follows.
func (b *bar) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.drawn {
		fmt.Fprint(b.w, "\r\x1b[K")
	}
}

// stalledAfter is how long there is no progress before a line says so.
const stalledAfter = 10 * time.Second

// drawing is the line for p after so long; moved is when there was progress last. While there is none, because a node is
// dead, say, the estimate does not grow: the line says for how long there was none.
func drawing(p control.Progress, passed, moved time.Duration) string {
	count := func(n int64) string {
		if p.Bytes {
			return size(n)
		}
		return fmt.Sprint(n)
	}
	if p.Job != "" {
		p.What = "job " + p.Job + "  " + p.What
	}
	unit := ""
	if p.Unit != "" && !p.Bytes {
		unit = " " + p.Unit
	}
	if p.Total <= 0 {
		return fmt.Sprintf("%s  %s  %s", p.What, count(p.Done), passed.Round(time.Second))
	}
	share := min(1, max(0, float64(p.Done)/float64(p.Total)))
	full := int(share * barWidth)
	line := fmt.Sprintf("%s  [%s%s] %3.0f%%  %s of %s", p.What, strings.Repeat("#", full), strings.Repeat("-", barWidth-full), 100*share,
		count(p.Done), count(p.Total)) + unit
	switch {
	case passed-moved >= stalledAfter:
		line += fmt.Sprintf("  no progress for %s", (passed - moved).Round(time.Second))
	case p.Left > 0: // of a job, whose rate the node knows since it began
		line += fmt.Sprintf("  %s left", p.Left.Round(time.Second))
	case p.Unit == "" && share > 0.02 && share < 1:
		left := time.Duration(float64(moved) * (1 - share) / share)
		line += fmt.Sprintf("  %s left", left.Round(time.Second))
	}
	return line
}
