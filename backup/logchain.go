package backup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// MomentFormat is the form of moments in messages and in `cqld ctl restore --at`.
const MomentFormat = "2006-01-02T15:04:05.000Z"

// Moment returns a hybrid time as text.
func Moment(at int64) string { return time.UnixMicro(at).UTC().Format(MomentFormat) }

// LogProblem is why an archived log does not lead from a backup to a moment.
type LogProblem struct {
	Host string
	// From and To are hybrid times of what is missing. From 0 means that the archive begins too late or is empty, and
	// To 0 that it ends at From.
	From, To int64
}

// Error implements error.
func (p *LogProblem) Error() string {
	switch {
	case p.From == 0 && p.To == 0:
		return fmt.Sprintf("node %s has archived no log: moments can be restored after backup_log was set on all "+
			"nodes and a backup was made", p.Host)
	case p.From == 0:
		return fmt.Sprintf("the archived log of node %s begins at %s, after the backup: use a backup that was made "+
			"later, and a moment after it", p.Host, Moment(p.To))
	case p.To == 0:
		return fmt.Sprintf("the log of node %s is archived only until %s: restore an earlier moment, or wait if the "+
			"node runs", p.Host, Moment(p.From))
	}
	return fmt.Sprintf("the archived log of node %s has a gap from %s to %s: restore a moment before the gap, or use "+
		"a backup that was made after it", p.Host, Moment(p.From), Moment(p.To))
}

// LogFrom says where the part of a log begins that follows a backup. The files of the backup contain all commits of the
// logs with smaller numbers, and perhaps some of the log with this number: those are skipped when the log is applied.
type LogFrom struct {
	Log  uint64 // number of the file with which the recovery of the backup's files begins
	Time int64  // hybrid time of the backup
	// Beginning is set instead if the node was no member of the backup's ring: its log begins with its data.
	Beginning LogPosition
}

// Way leads from a backup to a moment in the archived log of one node. All nodes that restore find a way of their own,
// perhaps another one, and read the same commits.
type Way struct {
	// Segments follow each other. The first one may begin before the backup, and the last one may end after the moment.
	Segments []Segment
	// Idle is a segment without writes that follows them and was not stored as a file; nil unless it is needed.
	Idle []byte
}

// Way returns the way from a backup to the moment at: with it, everything that the node accepted until the moment is
// known. If there is none, the error is a *LogProblem.
func (s Logs) Way(ctx context.Context, of LogOwner, from LogFrom, at int64) (Way, error) {
	// Before the segments are listed: the note must not claim more than the list has.
	end, err := s.noteOf(ctx, of)
	if err != nil {
		return Way{}, err
	}
	hours, err := s.hours(ctx, of)
	if err != nil {
		return Way{}, err
	}
	c := chain{from: from, end: end, at: at}
	// In as few hours as possible: each is a request to the store, or several.
	first, _ := slices.BinarySearch(hours, hour(from.Time))
	// The segment with the beginning may be in an earlier hour, but hardly in a much earlier one.
	for before := first - 1; before >= 0 && !c.begun(); before-- {
		if _, err := c.load(ctx, s, of, hours[before]); err != nil {
			return Way{}, err
		}
	}
	for _, h := range hours[first:] {
		covers, err := c.load(ctx, s, of, h)
		if err != nil {
			return Way{}, err
		}
		if covers {
			if w, ok := c.find(); ok {
				return w, nil
			}
		}
	}
	w, ok := c.find()
	if !ok {
		return Way{}, c.problem(of.Host)
	}
	return w, nil
}

// chain looks for segments that follow each other:
//
//	        ┌ from.Log: the files of the backup contain what is before
//	──[ a ]─┼──[ b  ][ c ][ d ]─── note: idle until
//	     [  a' ]          [ d' ]
//
// A process whose request was executed late may have left segments that overlap others (a', d'), so that there may be
// several ways.
type chain struct {
	from LogFrom
	end  LogEnd
	at   int64
	all  []Segment // by From and To
}

// before reports whether a position is not after the beginning of the log that follows the backup. Positions of an
// archive that began after the backup are not.
func (c *chain) before(p LogPosition) bool {
	if c.from.Beginning != (LogPosition{}) {
		return p.Since == c.from.Beginning.Since && p.Compare(c.from.Beginning) <= 0
	}
	return p.Since <= c.from.Time && p.Compare(LogPosition{Since: p.Since, Log: c.from.Log}) <= 0
}

// begun reports whether a segment begins early enough.
func (c *chain) begun() bool {
	return slices.ContainsFunc(c.all, func(g Segment) bool { return c.before(g.From) })
}

// load adds the segments of an hour. covers reports whether one of them leads to the moment.
func (c *chain) load(ctx context.Context, s Logs, of LogOwner, hour string) (covers bool, err error) {
	all, err := s.segmentsIn(ctx, of, hour)
	covers = slices.ContainsFunc(all, func(g Segment) bool { return g.Until >= c.at })
	c.all = append(c.all, all...)
	slices.SortFunc(c.all, func(a, b Segment) int { return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To)) })
	return covers, err
}

// reach returns, for each position to which segments lead from the beginning, the last segment on one of the ways.
func (c *chain) reach() map[LogPosition]int {
	last := map[LogPosition]int{}
	// By their beginnings: a segment that leads to the beginning of another one is visited before it.
	for i, g := range c.all {
		_, follows := last[g.From]
		// One that ends before the beginning is not needed, but one that contains it is.
		if !follows && (!c.before(g.From) || c.before(g.To)) {
			continue
		}
		if _, ok := last[g.To]; !ok {
			last[g.To] = i
		}
	}
	return last
}

// idle reports whether the note of the node says that nothing was logged after the beginning.
func (c *chain) idle() bool { return c.end.Position != (LogPosition{}) && c.before(c.end.Position) }

// find returns a way to the moment.
func (c *chain) find() (w Way, ok bool) {
	quiet := c.end.Until >= c.at
	if c.idle() && quiet {
		return Way{Idle: c.end.Data}, true
	}
	last := c.reach()
	var to LogPosition
	for position, i := range last {
		covers := c.all[i].Until >= c.at || position == c.end.Position && quiet
		// The shortest way reads the least.
		if covers && (!ok || position.Compare(to) < 0) {
			to, ok = position, true
		}
	}
	if !ok {
		return w, false
	}
	// The segments alone lead to an earlier time.
	if c.all[last[to]].Until < c.at {
		w.Idle = c.end.Data
	}
	// Back to the segment that contains the beginning: no other one leads to it.
	for more := true; more; {
		var i int
		if i, more = last[to]; more {
			w.Segments, to = append(w.Segments, c.all[i]), c.all[i].From
		}
	}
	slices.Reverse(w.Segments)
	return w, true
}

// problem returns why there is no way to the moment.
func (c *chain) problem(host string) error {
	p := &LogProblem{Host: host}
	var reached LogPosition
	// The time until which the archive is complete, and where it ends.
	for position, i := range c.reach() {
		p.From = max(p.From, c.all[i].Until)
		if position.Compare(reached) > 0 {
			reached = position
		}
	}
	if c.idle() || reached == c.end.Position {
		p.From = max(p.From, c.end.Until)
	}
	for _, g := range c.all {
		// The first segment after the last one that was reached.
		if g.From.Compare(reached) > 0 && !c.before(g.To) && p.To == 0 {
			p.To = cmp.Or(g.First, g.Stored)
		}
	}
	// An archive that has begun after the backup and has logged nothing yet.
	if p.From == 0 && p.To == 0 {
		p.To = c.end.Until
	}
	return p
}
