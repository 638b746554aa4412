package liveness

import (
	"sync"
	"time"

	"cqld/clusterversion"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/schema"
)

// versionBytes is the length of the schema version in a report and a heartbeat.
const versionBytes = len(schema.UUID{})

// silenceMax is how long the last report of a silent peer counts while its connection is open. Some drivers wait for
// schema agreement of all peers, including peers that are down.
const silenceMax = 10 * time.Second

// Reports contains the last report of each peer: up to which index it has applied the metadata log, and its schema
// version. Most heartbeats repeat the index, and need not wake the loop that owns Raft. It is safe for concurrent use.
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

// TakeVersion reads a schema version from a report. It returns zero for reports from earlier versions, which do not
// contain one.
func TakeVersion(cur *wire.Cursor) (v schema.UUID) {
	copy(v[:], cur.Take(versionBytes))
	return v
}

// AppendVersions appends the cluster versions that a node supports: the lowest and the highest, 2 bytes each.
func AppendVersions(b []byte, r clusterversion.Range) []byte {
	return wire.AppendUint16(wire.AppendUint16(b, uint16(r.Min)), uint16(r.Max))
}

// TakeVersions reads the output of AppendVersions from a report. It returns zero if the report contains none. Later
// versions may append more.
func TakeVersions(cur *wire.Cursor) (r clusterversion.Range) {
	r.Min, r.Max = clusterversion.Version(cur.Uint16()), clusterversion.Version(cur.Uint16())
	if cur.Err() != nil || !r.Valid() {
		return clusterversion.Range{}
	}
	return r
}

// Note records a report. It returns true if the loop must handle it, because the index differs from the peer's last
// report.
func (r *Reports) Note(peer ring.NodeID, index uint64, version schema.UUID, versions clusterversion.Range) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The version is stored even if the index has not changed.
	last, ok := r.last[peer]
	if r.last == nil {
		r.last = map[ring.NodeID]report{}
	}
	r.last[peer] = report{index: index, version: version, versions: versions}
	return !ok || last.index != index || last.stale
}

// Forget makes Note return true for the next report of a peer, whatever its index.
func (r *Reports) Forget(peer ring.NodeID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.last[peer]
	// Version still uses the report. The loop's queue was full, so the next report must be passed on.
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
