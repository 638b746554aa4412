package liveness

import (
	"sync"
	"time"

	"cqld/clusterversion"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/schema"
)

// versionBytes is the length of the schema version that follows the index in a report, and the time in a heartbeat.
const versionBytes = len(schema.UUID{})

// silenceMax is how long the last report of a silent peer counts, whose connection is open. Some drivers wait for the
// agreement of all peers, also those that are down.
const silenceMax = 10 * time.Second

// Reports are the last reports of the peers: up to which index each has applied the metadata log, and the schema
// version there. Most heartbeats repeat an index, and need not wake the loop that owns Raft. It is safe for concurrent
// use.
type Reports struct {
	mu   sync.Mutex
	last map[ring.NodeID]report
}

// report is what one peer has reported.
type report struct {
	// index is the index of the last command that the peer has applied.
	index   uint64
	version schema.UUID // zero means unknown
	// versions are the cluster versions that the peer's process supports; zero means unknown.
	versions clusterversion.Range
	stale    bool // the loop has not received index
}

// TakeVersion reads a schema version from a report. Nodes of earlier versions do not append it: the result is then
// zero.
func TakeVersion(cur *wire.Cursor) (v schema.UUID) {
	copy(v[:], cur.Take(versionBytes))
	return v
}

// AppendVersions appends the cluster versions that a node supports: the lowest and the highest, 2 bytes each.
func AppendVersions(b []byte, r clusterversion.Range) []byte {
	return wire.AppendUint16(wire.AppendUint16(b, uint16(r.Min)), uint16(r.Max))
}

// TakeVersions reads what AppendVersions has appended to a report. Zero means that the report has none. Later versions
// may append more.
func TakeVersions(cur *wire.Cursor) (r clusterversion.Range) {
	r.Min, r.Max = clusterversion.Version(cur.Uint16()), clusterversion.Version(cur.Uint16())
	if cur.Err() != nil || !r.Valid() {
		return clusterversion.Range{}
	}
	return r
}

// Note records a report, and reports whether the loop needs it: the last one of the peer had another index.
func (r *Reports) Note(peer ring.NodeID, index uint64, version schema.UUID, versions clusterversion.Range) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The version is stored in every case: it may have changed while the loop needs no event.
	last, ok := r.last[peer]
	if r.last == nil {
		r.last = map[ring.NodeID]report{}
	}
	r.last[peer] = report{index: index, version: version, versions: versions}
	return !ok || last.index != index || last.stale
}

// Forget makes the next report of a peer count, whatever its index.
func (r *Reports) Forget(peer ring.NodeID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.last[peer]
	// The report itself is kept for Version. The loop could not take the event, so the next report must be one.
	last.stale = true
	r.last[peer] = last
}

// Version returns the schema version that a peer has reported; zero means unknown.
func (r *Reports) Version(peer ring.NodeID) schema.UUID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[peer].version
}

// Versions returns the cluster versions that the process of a peer supports; zero means unknown.
func (r *Reports) Versions(peer ring.NodeID) clusterversion.Range {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[peer].versions
}
