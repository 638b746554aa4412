package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"cqld/cluster/voters"
	"cqld/schema/refused"
)

// majorityWait is how long a change waits for a majority of live voters: longer than an election, and longer than a
// restarting voter needs to connect.
const majorityWait = 2 * time.Second

// How long a majority must be missing before this node logs it, and the interval of the log messages, in ticks.
const (
	majorityLogTicks = uint64(5 * time.Second / tickEvery)
	majorityLogEvery = uint64(time.Minute / tickEvery)
)

// majority tracks whether enough voters are alive to commit changes of the metadata.
type majority struct {
	opts   *Options
	loop   *loop
	view   *view
	driver *driver
	shown  atomic.Pointer[voters.View] // at the last check
	// since is the tick from which a majority has been missing, and logged the tick of the last log message; zero means
	// none.
	since, logged uint64
}

// present returns the voters as this node currently knows them, or nil before it is a member. The loop calls it.
func (j *majority) present() *voters.View {
	if !j.driver.hasVoters() {
		return nil
	}
	conf := j.driver.conf
	// Both sets of voters while Raft's membership changes.
	return voters.Of(j.driver.leader(), conf.GetVoters(), conf.GetVotersOutgoing(), j.view.alive)
}

// note publishes the voters, and logs a missing majority. The loop calls it.
func (j *majority) note() {
	v := j.present()
	if v == nil {
		return
	}
	if old := j.shown.Load(); old == nil || !old.Equal(v) {
		// Stored only on changes, so readers can compare pointers.
		j.shown.Store(v)
	}
	ticks := j.loop.ticks
	switch {
	case v.Majority() && j.logged != 0:
		j.opts.Logger.Info("a majority of the metadata voters is alive", "alive", v.Alive, "required", v.Required)
		fallthrough
	case v.Majority():
		j.since, j.logged = 0, 0
	case j.since == 0:
		j.since = ticks
	case ticks-j.since >= majorityLogTicks && (j.logged == 0 || ticks-j.logged >= majorityLogEvery):
		j.logged = ticks
		j.opts.Logger.Error("no majority of the metadata voters is alive: changes of schema, roles and members wait "+
			"for one",
			"alive", v.Alive, "required", v.Required, "down", j.view.names(v.Down))
	}
}

// describe returns an error that describes a missing majority for an operator, or nil if there is one.
func (j *majority) describe(v *voters.View) error {
	if v.Majority() {
		return nil
	}
	return fmt.Errorf("only %d of the metadata voters are alive and %d are needed (down: %s): changes of schema, "+
		"roles and members "+
		"wait for them", v.Alive, v.Required, strings.Join(j.view.names(v.Down), ", "))
}

// missing returns nil if a majority of the voters is alive. While the voters change, both sets need a majority. The
// loop calls it.
func (j *majority) missing() *refused.Unavailable {
	// Before this node is a member, v is nil, which counts as a majority: the change waits.
	if v := j.present(); !v.Majority() {
		return &refused.Unavailable{Required: v.Required, Alive: v.Alive}
	}
	return nil
}

// await returns when a majority of the voters is alive. After majorityWait it returns a *refused.Unavailable, because a
// proposal would not be committed, and the client would not learn its outcome.
func (j *majority) await(ctx context.Context) error {
	for waited := time.Duration(0); ; waited += joinPause {
		short, err := j.ask(ctx)
		switch {
		case err != nil:
			// ctx or the loop has ended.
			return err
		case short == nil:
			return nil
		case waited >= majorityWait:
			return short
		}
		switch err := j.loop.pause(ctx, joinPause); {
		case errors.Is(err, context.DeadlineExceeded):
			// Unavailable is more precise than an expired deadline.
			return short // nothing was proposed
		case err != nil:
			return err
		}
	}
}

// ask runs missing in the loop.
func (j *majority) ask(ctx context.Context) (*refused.Unavailable, error) {
	// Buffered, so the loop can respond after the caller has given up.
	result := make(chan *refused.Unavailable, 1)
	if !j.loop.post(func() { result <- j.missing() }) {
		return nil, errQueueFull
	}
	select {
	case short := <-result:
		return short, nil
	case <-j.loop.stopped:
		return nil, errStopped
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
