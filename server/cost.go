package server

import (
	"strconv"
	"strings"
	"time"

	"cqld/internal/wire"
	"cqld/ring"
	"cqld/server/frame"
)

// costKey is the key by which the custom payload of a QUERY, EXECUTE or BATCH requests the cost of that request. Its
// value is ignored. Servers ignore keys of a custom payload that they do not know (native protocol v4, section 2.2),
// so drivers may send it to any server.
const costKey = "cqld-cost"

// The keys of the custom payload with the cost, named after the properties of EXPLAIN ANALYZE. The values are text: the
// path as EXPLAIN names it, internode addresses separated by ", ", and decimal numbers. pathKey is absent if nothing
// was read, and replicasKey if no replica was asked.
const (
	pathKey         = "cqld-path"
	replicasKey     = "cqld-replicas"
	rowsKey         = "cqld-rows-read"
	tombstonesKey   = "cqld-tombstones-read"
	partitionsKey   = "cqld-partitions-read"
	commandsKey     = "cqld-commands"
	bytesKey        = "cqld-bytes-read"
	microsecondsKey = "cqld-microseconds"
)

// consumePrefix consumes the parts before the message of the request, and measures the request if its custom payload
// has costKey. Other keys are ignored, and so is the payload of PREPARE. The cursor is at the message afterwards.
// Decoding the message reports a malformed payload.
func (w *worker) consumePrefix(c *wire.Cursor, h header) {
	payload := frame.ConsumeRequestPrefix(c, h.Version, h.Flags)
	// PREPARE reads no data, so there is nothing to measure.
	if payload == nil || h.Opcode == frame.OpPrepare {
		return
	}
	if _, ok := payload[costKey]; ok {
		w.request.Measure()
		w.began = time.Now()
	}
}

// costPayload returns the custom payload of the answer to the worker's request, or nil if the request did not ask for
// one.
func (w *worker) costPayload(s *Server) map[string][]byte {
	r := &w.request
	if !r.Measured() {
		return nil
	}
	// Decimal text: drivers show a payload as bytes, and every language can parse it.
	number := func(n int64) []byte { return strconv.AppendInt(nil, n, 10) }
	payload := map[string][]byte{
		rowsKey:         number(int64(r.Cost.Rows)),
		tombstonesKey:   number(int64(r.Cost.Tombstones)),
		partitionsKey:   number(int64(r.Cost.Partitions)),
		commandsKey:     number(int64(r.Cost.Commands)),
		bytesKey:        number(int64(r.Cost.Bytes)),
		microsecondsKey: number(time.Since(w.began).Microseconds()),
	}
	if r.Cost.Path != "" {
		payload[pathKey] = []byte(r.Cost.Path)
	}
	if replicas := r.Replicas(); len(replicas) > 0 {
		payload[replicasKey] = []byte(s.replicaNames(replicas))
	}
	return payload
}

// replicaNames returns the internode addresses of nodes, separated by ", ".
func (s *Server) replicaNames(nodes []ring.NodeID) string {
	// Nodes are named by their addresses, in the order of nodes, because operators know nodes by address.
	names := make([]string, len(nodes))
	for i, node := range nodes {
		names[i] = s.replicaAddress(node).String()
	}
	return strings.Join(names, ", ")
}
