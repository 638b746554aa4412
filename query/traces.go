package query

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"

	"cqld/auth"
	"cqld/request"
	"cqld/schema"
)

// traces determines which traces are stored, and which clients may read them: a client may read traces of its own
// role, and all traces with SELECT on the table. Trace ids contain a code of the owner, so no table of owners is
// needed.
type traces struct {
	secret func() []byte        // the secret of the cluster; nil means none
	budget func(bytes int) bool // nil means no limit
}

// sealBytes is the length of the part of a trace id that authenticates the role. The rest contains 30 random bits of
// the node, and the time.
const sealBytes = 4

// id seals a new trace id: its last bytes authenticate the role that owns the trace, so that every node can check it
// without reading the trace. If a role guesses an existing id of another role, it may read that trace with a
// probability of 2^-32.
func (t *traces) id(owner auth.Principal, id [16]byte) [16]byte {
	copy(id[len(id)-sealBytes:], t.seal(owner, id[:len(id)-sealBytes]))
	return id
}

// owns reports whether a trace is of a role. It reports true for a forged id with a probability of 2^-32.
func (t *traces) owns(owner auth.Principal, id []byte) bool {
	if len(id) != 16 {
		return false
	}
	n := len(id) - sealBytes
	return hmac.Equal(id[n:], t.seal(owner, id[:n]))
}

// seal returns the code of a role for an id. All nodes with the same secret compute the same code.
func (t *traces) seal(owner auth.Principal, id []byte) []byte {
	var secret []byte
	if t.secret != nil {
		secret = t.secret()
	}
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("trace id\x00")) // separates this use of the secret from others
	h.Write(id)
	h.Write([]byte(owner.Name))
	return h.Sum(nil)[:sealBytes]
}

// admit reports whether a trace may be stored. If not, the statement only gets a warning.
func (t *traces) admit(s *traceSession) bool {
	return t.budget == nil || t.budget(s.bytes())
}

// isTraces reports whether a table has the traces of all roles. Names of tables are lower case.
func isTraces(keyspace, name string) bool {
	return keyspace == "system_traces" && (name == "sessions" || name == "events")
}

// readsTraces reports whether a requirement is that for a SELECT from a table of traces. Other statements on these
// tables, such as DELETE, need the permission as usual.
func (pl *plan) readsTraces(need auth.Requirement) bool {
	return need.Permission == auth.Select && need.Resource.Kind == auth.KindTable &&
		isTraces(need.Resource.Keyspace, need.Resource.Name) && (pl.selectPlan != nil || pl.explain != nil)
}

// visible implements read.Options.Visible: a client without SELECT on a table of traces may read only its own traces,
// by their ids.
func (p *Processor) visible(r *request.Request, t *schema.Table) (func(key []byte) bool, error) {
	if !isTraces(t.Keyspace, t.Name) {
		return nil, nil
	}
	err := p.services.Executor.Authorize(r, auth.Requirement{Permission: auth.Select,
		Resource: auth.Table(t.Keyspace, t.Name)})
	// Without an error, the client may read everything. Any other error means that the permissions could not be
	// determined.
	if denied := (*auth.Denied)(nil); !errors.As(err, &denied) {
		return nil, err
	}
	return func(key []byte) bool { return p.traces.owns(r.Principal, key) }, err
}
