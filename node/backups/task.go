package backups

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"cqld/backup"
	"cqld/internal/env"
	"cqld/schema"
)

// Step is what a node does for a backup or a restoration.
type Step string

// The steps of a task. Poll asks how far the task is, and End stops it and removes its files.
const (
	Checkpoint Step = "checkpoint"
	Upload     Step = "upload"
	Verify     Step = "verify"
	Restore    Step = "restore"
	// Steps of a restoration to a moment. A node that does not know them must not restore another one.
	VerifyMoment  Step = "verify-moment"
	RestoreMoment Step = "restore-moment"
	// Build waits for the indexes of restored tables that replace others.
	Build Step = "build"
	Poll  Step = "poll"
	End   Step = "end"
)

// Request is a message from the leader to a node, encoded as JSON. Unknown fields are ignored.
type Request struct {
	Step     Step   `json:"step"`
	Task     string `json:"task"` // identifies the attempt of the leader's job
	Job      string `json:"job"`  // the same for all attempts; a new one replaces an earlier one
	Location string `json:"location,omitempty"`
	Backup   string `json:"backup,omitempty"`
	// Nonce is of backup.Started, or identifies the manifest. The node must find the same in the store.
	Nonce  string             `json:"nonce,omitempty"`
	Tables []schema.StorageID `json:"tables,omitempty"`
	Rows   []Source           `json:"rows,omitempty"`
	// At is the hybrid time (µs) to which tables are restored, and State identifies the schema at that time; for
	// VerifyMoment and RestoreMoment.
	At    int64  `json:"at,omitempty"`
	State string `json:"state,omitempty"`
	// Epoch is of the ring's last change. A node that knows an older or newer ring refuses.
	Epoch uint64 `json:"epoch,omitempty"`
}

// Source is a table whose rows are restored into the table with the identifier Into. Its names are of the backup.
type Source struct {
	Keyspace string      `json:"keyspace"`
	Name     string      `json:"name"`
	Into     schema.UUID `json:"into"`
}

// Reply is the answer to a request.
type Reply struct {
	Running bool   `json:"running"`
	Error   string `json:"error,omitempty"`
	Done    int64  `json:"done"`  // bytes
	Total   int64  `json:"total"` // 0 means unknown
}

// flushMax is how long a checkpoint waits for a flush, which makes the log in it small.
const flushMax = 10 * time.Second

// tasks runs one step at a time of one task. Steps run in goroutines of the node, one after the other: a step begins
// when the previous one has ended, also if that was cancelled. mu is never held while a step works.
type tasks struct {
	clock    env.Clock
	await    env.Await
	lease    time.Duration     // Limits.Lease
	run      func(func())      // in a goroutine that the node waits for
	lifetime context.Context   // ends when the node stops
	expired  func(task string) // is called when the leader of a task no longer asks
	mu       struct {
		sync.Mutex
		current *running
	}
}

// running is a step. tasks.mu guards the fields after ended.
type running struct {
	task   string
	job    string
	step   Step
	cancel context.CancelFunc
	ended  event
	reply  Reply
	asked  time.Duration // monotonic time of the last question
}

// errBusy means that the node works for another leader. It ends when that leader ends its task, or has not asked for
// Limits.Lease.
var errBusy = errors.New("this node works on another backup or restoration: try again when that has ended")

// errPanicked is the error of a step that panicked, which the node has logged.
var errPanicked = errors.New("the step ended because of an internal error: the log of the node has it")

// begin starts a step, unless it has begun. work runs in a goroutine of its own, when the previous step has ended.
func (t *tasks) begin(r *Request, work func(ctx context.Context, progress func(done, total int64)) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	previous := t.mu.current
	switch {
	case previous == nil:
	case previous.task == r.Task && previous.step == r.Step:
		return nil
	case previous.job != r.Job && t.clock.Monotonic()-previous.asked < t.lease:
		return errBusy
	default:
		previous.cancel()
	}
	ctx, cancel := context.WithCancel(t.lifetime)
	c := &running{task: r.Task, job: r.Job, step: r.Step, cancel: cancel, asked: t.clock.Monotonic(),
		reply: Reply{Running: true}}
	t.mu.current = c
	if previous == nil || previous.task != r.Task {
		t.run(func() { t.watch(r.Task) })
	}
	t.run(func() {
		defer c.ended.happen()
		defer cancel()
		// A step that was cancelled must not write while the next one does.
		if previous != nil {
			_ = t.await(context.Background(), previous.ended.then)
		}
		err := errPanicked
		defer func() { t.finish(c, err) }()
		err = work(ctx, func(done, total int64) { t.progress(c, done, total) })
	})
	return nil
}

// progress notes how far a step is. The step may have been replaced, and then its progress has no effect.
func (t *tasks) progress(c *running, done, total int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.reply.Done, c.reply.Total = done, total
}

// finish notes the end of a step. The reply stays until the leader ends the task or begins its next step.
func (t *tasks) finish(c *running, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.reply.Running = false
	if err != nil {
		c.reply.Error = err.Error()
	}
}

// watch ends a task whose leader no longer asks: the leader's node may be lost, and its checkpoint would keep the space
// of files that compactions have replaced. It returns when the task has ended.
func (t *tasks) watch(task string) {
	for t.await.Sleep(t.lifetime, t.clock, t.lease/4) == nil {
		t.mu.Lock()
		c := t.mu.current
		other := c == nil || c.task != task
		late := !other && t.clock.Monotonic()-c.asked >= t.lease
		t.mu.Unlock()
		if late {
			t.end(&Request{Task: task})
		}
		if late || other {
			t.expired(task)
			return
		}
	}
}

// poll returns how far a task is, and extends its lease.
func (t *tasks) poll(r *Request) (Reply, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.mu.current
	// The process has restarted, or another leader has replaced the task.
	if c == nil || c.task != r.Task {
		return Reply{}, errors.New("the node no longer knows the task: it has restarted, or was asked by another one")
	}
	c.asked = t.clock.Monotonic()
	return c.reply, nil
}

// end cancels a task, and waits until its step has ended. It returns false if the node works on another task, or none.
func (t *tasks) end(r *Request) bool {
	t.mu.Lock()
	c := t.mu.current
	t.mu.Unlock()
	if c == nil || c.task != r.Task {
		return false
	}
	c.cancel()
	_ = t.await(context.Background(), c.ended.then)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.current == c {
		t.mu.current = nil
	}
	return true
}

// decodeRequest decodes a message of another node.
func decodeRequest(b []byte) (*Request, error) {
	r := new(Request)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("a request for a backup cannot be read: %w", err)
	}
	// The task is the name of a directory.
	return r, backup.CheckName(r.Task)
}
