package execution

import (
	"cqld/auth"
	"cqld/internal/env"
	"cqld/internal/uuid"
	"cqld/query/guardrail"
	"cqld/query/mask"
	"cqld/request"
	"cqld/ring"
	"cqld/schema"
)

// View provides the current state of the cluster to statements. Each method returns the newest state, so two calls
// may see different versions. Results are immutable.
type View interface {
	Self() ring.NodeID
	Schema() *schema.Schema
	Topology() *ring.Topology
	// Alive reports whether this node considers another node alive.
	Alive(ring.NodeID) bool
}

// Timestamps generates write timestamps (µs), each greater than all previous ones.
type Timestamps interface{ Next() int64 }

// Services are the parts of a node that executions of statements use. They are immutable and shared by all
// executions.
type Services struct {
	// Executor reads and writes rows, and authorizes requests.
	Executor   *request.Executor
	View       View
	Clock      env.Clock
	IDs        *uuid.Source
	Timestamps Timestamps
	Timeouts   Timeouts
	// Virtual generates the rows of virtual tables; nil means that there are none.
	Virtual VirtualSource
	// Masking means that clients without the UNMASK permission see masked columns.
	Masking     bool
	Guardrails  *guardrail.Guardrails  // nil means none
	BoundsData  bool                   // at least one guardrail bounds statements that read or write data
	IsSuperuser func(role string) bool // nil means that no role is exempt from guardrails
}

// Environment returns the environment of the functions of a statement.
func (s *Services) Environment(r *request.Request, now Moment) Environment {
	return Environment{Request: r, ids: s.IDs, millis: now.Millis}
}

// Moment returns the clock's time, with the seconds of the request if it contains them.
func (s *Services) Moment(params *Params) Moment {
	now := s.Clock.Now()
	m := Moment{Millis: now.UnixMilli(), Seconds: now.Unix()}
	if params.HasNow {
		m.Seconds = params.NowInSeconds
	}
	return m
}

// TimeoutsOf returns the timeouts of a statement with these parameters. USING TIMEOUT replaces all of them.
func (s *Services) TimeoutsOf(params *Params) Timeouts {
	d := params.timeout
	if d == 0 {
		return s.Timeouts
	}
	return Timeouts{Read: d, Range: d, Write: d, Counter: d, CAS: d, Truncate: d, Schema: d}
}

// IsVirtual reports whether this node generates the rows of t.
func (s *Services) IsVirtual(t *schema.Table) bool {
	return s.Virtual != nil && s.Virtual.Serves(t)
}

// Datacenter returns the name of this node's data center, or an empty string if the topology does not contain it.
func (s *Services) Datacenter() string {
	if n := s.View.Topology().Node(s.View.Self()); n != nil {
		return n.Datacenter
	}
	return ""
}

// Ordinary reports whether the client logged in and is not a superuser.
func (s *Services) Ordinary(r *request.Request) bool {
	name := r.Principal.Name
	return name != "" && s.IsSuperuser != nil && !s.IsSuperuser(name)
}

// Guard returns the guard of a request, or nil if guardrails do not bind it. Warnings of the guard are appended to the
// request.
func (s *Services) Guard(r *request.Request) *guardrail.Guard {
	name := r.Principal.Name
	if s.Guardrails == nil || name != "" && s.IsSuperuser != nil && s.IsSuperuser(name) {
		return nil
	}
	return &guardrail.Guard{Guardrails: s.Guardrails, Anonymous: name == "", Warnings: &r.Warnings}
}

// DataGuard is Guard for statements that read or write data. It returns nil in most configurations, because few
// guardrails bound such statements.
func (s *Services) DataGuard(r *request.Request) *guardrail.Guard {
	if s.Guardrails == nil || !s.BoundsData {
		return nil
	}
	return s.Guard(r)
}

// Masks returns the masks for the rows of a request. It returns none if the principal may see all values, or while
// masking is off. As in Cassandra, restrictions on masked columns are rejected even while masking is off.
func (s *Services) Masks(r *request.Request, d *mask.Decision) (*mask.Table, error) {
	if d == nil {
		return nil, nil
	}
	// Call d.Masks even while masking is off, because it also rejects restrictions on masked columns.
	masks, err := d.Masks(r.Principal, func(need auth.Requirement) error { return s.Executor.Authorize(r, need) })
	if err != nil || !s.Masking {
		return nil, err
	}
	return masks, nil
}
