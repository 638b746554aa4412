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

// bar displays the progress of a long operation: on a terminal as one line that it redraws, elsewhere as a line every
// few seconds. It is safe for concurrent use. An operation with a total is drawn with a bar of 30 characters, one
// without only as a count:
//
//	stream ranges  [#######-----------------------]  25%  12 of 48
//	compact  1.50 GiB  42s
type bar struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	drawn    bool // a line is on the terminal and not erased yet
	began    time.Time
	last     time.Time     // when the last line was printed without a terminal
	text     string        // the last line
	jobEvery time.Duration // interval between lines about a job without a terminal
	done     int64         // of the last reported progress
	moved    time.Duration // time since began at which done changed last
}

// in characters
const (
	barWidth = 30
	// barEvery is the interval between lines without a terminal; jobEvery is the interval for jobs, whose line is
	// printed only if it has changed.
	barEvery = 5 * time.Second
	jobEvery = time.Second
)

// newBar returns a bar that writes to w, usually stderr. Without a terminal, the first line is printed after one
// interval, so short operations print none.
func newBar(w io.Writer) *bar {
	now := time.Now()
	b := &bar{w: w, began: now, last: now, jobEvery: jobEvery}
	// A writer that is not a file, as in tests, is not a terminal.
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil {
			b.terminal = info.Mode()&os.ModeCharDevice != 0
		}
	}
	return b
}

// show displays a progress. Without a terminal, it may print nothing.
func (b *bar) show(p control.Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	passed := time.Since(b.began)
	// Any change counts as progress, including a decrease when a job starts its next phase.
	if p.Done != b.done {
		b.done, b.moved = p.Done, passed
	}
	line := drawing(p, passed, b.moved)
	if b.terminal {
		// The line is erased and written again. ESC [ K erases from the cursor to the end of the line, which removes
		// the rest of a longer line.
		fmt.Fprintf(b.w, "\r\x1b[K%s", line)
		b.drawn = true
		return
	}
	now, every := time.Now(), barEvery
	// Progress with a unit belongs to a job.
	if p.Unit != "" && line != b.text {
		every = b.jobEvery
	}
	if now.Sub(b.last) >= every {
		b.last, b.text = now, line
		fmt.Fprintln(b.w, line)
	}
}

// end completes the line, so further output starts on a new line. On a terminal it erases the line instead, and the
// command's result replaces it.
func (b *bar) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.drawn {
		fmt.Fprint(b.w, "\r\x1b[K")
	}
}

// stalledAfter is the time without progress after which the line mentions it. A healthy operation reports progress much
// more often.
const stalledAfter = 10 * time.Second

// drawing returns the line for p, after the time passed; moved is when progress was last made. While there is no
// progress, for example because a node is dead, the estimate stays constant, and the line shows for how long. Bytes are
// shown with a unit, other numbers without.
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
	// Without a total there is neither a bar nor an estimate.
	if p.Total <= 0 {
		return fmt.Sprintf("%s  %s  %s", p.What, count(p.Done), passed.Round(time.Second))
	}
	// Estimates of the total may be too small. With more done than estimated, the bar stays full.
	share := min(1, max(0, float64(p.Done)/float64(p.Total)))
	full := int(share * barWidth)
	line := fmt.Sprintf("%s  [%s%s] %3.0f%%  %s of %s", p.What, strings.Repeat("#", full),
		strings.Repeat("-", barWidth-full), 100*share,
		count(p.Done), count(p.Total)) + unit
	switch {
	case passed-moved >= stalledAfter:
		line += fmt.Sprintf("  no progress for %s", (passed - moved).Round(time.Second))
	case p.Left > 0: // a job, whose rate the node knows from its start
		line += fmt.Sprintf("  %s left", p.Left.Round(time.Second))
	// The rate is measured until the last progress, so the estimate does not grow while nothing happens.
	case p.Unit == "" && share > 0.02 && share < 1:
		left := time.Duration(float64(moved) * (1 - share) / share)
		line += fmt.Sprintf("  %s left", left.Round(time.Second))
	}
	return line
}
