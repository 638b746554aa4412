package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"cqld/auth"
	"cqld/schema"
)

// State is a version of the metadata of a cluster, as the nodes have applied it. It has what a restoration needs: the
// schema for the tables and their columns, the roles, and the ring to compare it with the backup's.
type State struct {
	Epoch   uint64   `json:"epoch"`  // of the metadata
	Schema  []byte   `json:"schema"` // schema.Encode
	Roles   []byte   `json:"roles"`  // auth.Encode
	Members []Member `json:"members"`
	// Owners means that Members are the nodes that own tokens, which is the ring that requests were acknowledged in.
	// Earlier builds of cqld also listed nodes that were about to join.
	Owners bool `json:"owners,omitempty"`
	// Moved is the epoch of the ring's last change.
	Moved uint64 `json:"moved"`
}

// Contents returns the schema and the roles of a state.
func (t *State) Contents() (c Contents, err error) {
	if c.Schema, err = schema.Decode(t.Schema); err == nil {
		c.Roles, err = auth.Decode(t.Roles)
	}
	return c, err
}

// Observed says that a node has applied a state at a hybrid time, in microseconds. Its name in the store has all of its
// fields, so that a restoration reads the content of one state only.
type Observed struct {
	Time int64
	// Unknown is the hybrid time since which the node may have applied the state, and other ones before it. 0 means
	// that Time is exact.
	Unknown int64
	Epoch   uint64
	Moved   uint64
	Hash    string // of the state, in hexadecimal digits
}

// stateHashBytes is how much of a hash is in names. States are compared with their checksums when they are read: the
// hash only has to differ for different states of one cluster.
const stateHashBytes = 16

// name returns the name of an observation.
func (o *Observed) name() string {
	return fmt.Sprintf("%016x-%016x-%016x-%016x-%s", o.Time, o.Unknown, o.Epoch, o.Moved, o.Hash)
}

// parseObserved reads the name of an observation. ok is false for files that somebody else has put there.
func parseObserved(name string) (o Observed, ok bool) {
	_, err := fmt.Sscanf(name, "%x-%x-%x-%x-%s", &o.Time, &o.Unknown, &o.Epoch, &o.Moved, &o.Hash)
	hash, failed := hex.DecodeString(o.Hash)
	return o, err == nil && failed == nil && len(hash) == stateHashBytes && o.name() == name
}

// stateSuffix ends the names of states.
const stateSuffix = ".json"

// stateName returns the name of a state's file.
func stateName(cluster, hash string) string {
	return logsDir + "/" + cluster + "/" + statesDir + "/" + hash + stateSuffix
}

// PutState stores a state that a node has applied, and when: the times of o, whose other fields are set by PutState. A
// state that another node has stored is not stored again.
func (s Logs) PutState(ctx context.Context, of LogOwner, t *State, o Observed) error {
	dir, err := of.dir()
	if err != nil {
		return err
	}
	b, err := encode(t)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(b)
	o.Epoch, o.Moved, o.Hash = t.Epoch, t.Moved, hex.EncodeToString(sum[:stateHashBytes])
	name := stateName(of.Cluster, o.Hash)
	// The name is of the content, so one that is there is whole and the same.
	found, err := s.store.files.exists(ctx, name)
	if err != nil {
		return s.store.failed("look for "+name, err)
	}
	if !found {
		if err := s.store.write(ctx, name, t); err != nil {
			return err
		}
	}
	// The observation is last, so it always has its state: a sweep keeps young states without one.
	return s.store.write(ctx, dir+observedInfix+"/"+o.name(), struct{}{})
}

// Observations returns the states that a node has applied, ordered by their times.
func (s Logs) Observations(ctx context.Context, of LogOwner) (out []Observed, err error) {
	dir, err := of.dir()
	if err != nil {
		return nil, err
	}
	names, err := s.store.files.list(ctx, dir+observedInfix)
	if err != nil {
		return nil, s.store.failed("list", err)
	}
	slices.Sort(names)
	for _, name := range names {
		if o, ok := parseObserved(name); ok {
			out = append(out, o)
		}
	}
	return out, nil
}

// State returns a state that a node of a cluster has observed.
func (s Logs) State(ctx context.Context, cluster, hash string) (*State, error) {
	if b, err := hex.DecodeString(hash); err != nil || len(b) != stateHashBytes || CheckName(cluster) != nil {
		return nil, fmt.Errorf("backup: %.70q is not the hash of a state", hash)
	}
	t := new(State)
	name := stateName(cluster, hash)
	found, err := s.store.read(ctx, name, t)
	if err == nil && !found {
		err = s.store.failed("read "+name, errors.New("the state of the schema is missing"))
	}
	return t, err
}

// Equal reports whether two states differ at most in their epochs, which also increase by changes that no restoration
// needs, such as reports of repairs.
func (t *State) Equal(o *State) bool {
	return bytes.Equal(t.Schema, o.Schema) && bytes.Equal(t.Roles, o.Roles) && t.Moved == o.Moved &&
		t.Owners == o.Owners &&
		slices.EqualFunc(t.Members, o.Members, Member.equal)
}

// equal reports whether two members are the same node with the same place and tokens.
func (m Member) equal(o Member) bool {
	return m.ID == o.ID && m.Host == o.Host && m.Datacenter == o.Datacenter && m.Rack == o.Rack &&
		slices.Equal(m.Tokens, o.Tokens)
}
