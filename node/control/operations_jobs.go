package control

import "time"

// Long-running work.
var (
	ListJobs  = Operation[JobArgs, Jobs]{Name: "jobs"}
	WatchJob  = Operation[JobArgs, Job]{Name: "watchjob"} // returns when the job has ended
	CancelJob = Operation[JobArgs, Job]{Name: "canceljob", Changes: true}
	ResumeJob = Operation[JobArgs, Job]{Name: "resumejob", Changes: true}
)

// JobArgs name a job. An empty ID means all; only ListJobs accepts it.
type JobArgs struct {
	ID string `json:"id,omitempty"`
}

// Jobs are the jobs of a node, in the order of their creation: those that have not ended, and the most recent ones that
// have.
type Jobs struct {
	Jobs []Job `json:"jobs"`
}

// Job is a repair, rebuild, cleanup or compaction of this node, or a ring operation.
type Job struct {
	ID        string        `json:"id"`
	Kind      string        `json:"kind"`
	Target    string        `json:"target"`
	State     string        `json:"state"` // queued, running, done, failed, cancelled, interrupted
	Phase     string        `json:"phase,omitempty"`
	Done      int64         `json:"done"`  // in Unit
	Total     int64         `json:"total"` // 0 means unknown
	Unit      string        `json:"unit"`  // bytes, ranges, tables, nodes
	Left      time.Duration `json:"left_ns,omitempty"`
	Attempt   int           `json:"attempt"`
	Error     string        `json:"error,omitempty"`
	Resumable bool          `json:"resumable"`
	Created   time.Time     `json:"created"`
	Began     time.Time     `json:"began,omitzero"` // start of the current attempt
	Ended     time.Time     `json:"ended,omitzero"`
}
