package metrics

import (
	"fmt"
	"maps"

	"github.com/prometheus/client_golang/prometheus"

	"cqld/node/operation"
	"cqld/paxos"
	"cqld/request"
	"cqld/server"
	"cqld/server/frame"
)

// requests collects the requests that this node coordinated, and what happened to them. Gauges are the current waits;
// everything else counts since the start of the node. Events are counted where they happen, so one client request may
// raise several: a timeout of a read after a digest mismatch raises both.
func (c *Collector) requests(m sink) {
	c.cqlClients(m)
	// The events of conditional changes are counted by the proposer, and the others by the coordinator.
	s, l, p := c.o.Commands.Activity.CoordinatorStats(), c.o.Instance.Coordinator.Load(), c.o.Instance.Proposer.Stats()
	h, b, listed := c.o.Instance.Hints.Stats(), c.o.Instance.Batches.Stats(), c.o.Instance.Lister.Stats()
	// The statistics of each part are read once, so that the events of one part are consistent.
	found := c.o.Instance.Searcher.Stats()
	m.gauge("coordinator_writes_active", "Writes that wait for replicas.", l.Writes)
	m.gauge("coordinator_reads_active", "Reads that wait for replicas.", l.Reads)
	// One name with a label, because most of these events are rare and read together.
	for _, e := range []struct {
		event string
		count uint64
	}{{"write_timeout", s.WriteTimeouts}, {"read_timeout", s.ReadTimeouts}, {"unavailable", s.Unavailable},
		{"overloaded", s.Overloaded},
		{"digest_mismatch", s.DigestMismatches}, {"read_repair", s.ReadRepairs}, {"short_read", s.ShortReads},
		{"speculated", s.Speculated},
		{"replanned", s.Replans}, {"restamped", s.Restamped}, {"hint_stored", h.Stored}, {"hint_replayed", h.Replayed},
		{"hint_expired", h.Expired},
		{"hint_lost", h.Lost}, {"batch_stored", b.Stored}, {"batch_replayed", b.Replayed},
		{"listing_ordered", listed.Ordered}, {"listing_scan", listed.Scans}, {"listing_page", listed.Pages},
		{"listing_key", listed.Keys},
		{"listing_key_scanned", listed.Scanned}, {"search", found.Searches}, {"search_page", found.Pages},
		{"search_row", found.Rows}, {"search_settled", found.Settled},
		{"search_read", found.Reads}, {"search_stale", found.Stale}, {"search_scanned", found.Scanned},
		{"cas_contention", p.Contentions},
		{"cas_finished_of_another", p.Finished}, {"cas_round", p.Rounds}, {"cas_shared_round", p.Shared},
		{"cas_without_prepare", p.Unprepared}, {"cas_alone", p.Alone}, {"cas_turn", p.Turns},
		{"cas_looked_up", p.LookedUp}, {"cas_unknown", p.Unknown}, {"cas_missing_commit", p.CommitsSent},
		{"cas_read_again", p.Rereads}, {"cas_arbiter_failed", p.ArbitersFailed}} {
		m.send(prometheus.CounterValue, "coordinator_events_total",
			"What happened to requests that this node coordinated.", float64(e.count),
			[]string{"event"}, []string{e.event})
	}
	// StageNone and CauseNone are zero values, and never counted. Dividing a stage's seconds by
	// coordinator_events_total{event="cas_round"} yields its mean duration for each round.
	for stage := paxos.StageNone + 1; stage < paxos.Stages; stage++ {
		m.send(prometheus.CounterValue, "coordinator_cas_stage_seconds_total",
			"Time that rounds of conditional changes spent in each stage.",
			p.Times[stage].Seconds(), []string{"stage"}, []string{stage.String()})
	}
	for cause := paxos.CauseNone + 1; cause < paxos.Causes; cause++ {
		m.send(prometheus.CounterValue, "coordinator_cas_failures_total",
			"Conditional changes and serial reads that failed, by cause.",
			float64(p.Failures[cause]), []string{"cause"}, []string{cause.String()})
	}
}

// cqlClients collects the load of the CQL server. It is zero while the server is closed. Its counters begin again when
// an operator opens the server. Errors are counted by their codes (section 9 of the native protocol v4).
func (c *Collector) cqlClients(m sink) {
	var l server.Load
	// The map is a copy: the codes below are added to it.
	killed, errors := int64(0), map[frame.ErrorCode]int64{}
	if s := c.o.Servers.CQL(); s != nil {
		l, killed = s.Load(), s.Killed()
		maps.Copy(errors, s.Errors())
	}
	m.gauge("client_connections", "CQL connections.", int64(l.Connections))
	m.gauge("client_requests_active", "Requests being executed.", int64(l.Active))
	m.gauge("client_requests_queued", "Requests waiting to be executed.", int64(l.Queued))
	m.gauge("client_bytes", "Bytes of requests in memory and of replies not sent yet.", l.Bytes)
	m.counter("client_requests", "Requests executed.", l.Completed)
	m.counter("client_requests_refused", "Requests refused because too many waited.", l.Refused)
	m.counter("client_requests_killed", "Requests that an operator has ended.", killed)
	// The codes of the protocol have series from the start; others appear with their first error.
	for _, code := range []frame.ErrorCode{frame.CodeServerError, frame.CodeProtocolError, frame.CodeBadCredentials,
		frame.CodeUnavailable, frame.CodeOverloaded, frame.CodeTruncateError, frame.CodeWriteTimeout,
		frame.CodeReadTimeout, frame.CodeReadFailure, frame.CodeFunctionFailure, frame.CodeWriteFailure,
		frame.CodeCASWriteUnknown, frame.CodeSyntaxError, frame.CodeUnauthorized, frame.CodeInvalid,
		frame.CodeConfigError, frame.CodeAlreadyExists, frame.CodeUnprepared} {
		errors[code] += 0
	}
	for code, count := range errors {
		m.send(prometheus.CounterValue, "client_errors_total",
			"Errors that CQL clients were answered, by the protocol's code.", float64(count),
			[]string{"code"}, []string{fmt.Sprintf("0x%04X", uint32(code))})
	}
}

// coordinatorRequests collects the requests that an Executor sent to the coordinator. protocol is cql or tables.
// Conditional changes are counted once more by their results. kind and result have few values, known at compile time.
func (c *Collector) coordinatorRequests(m sink, protocol string, e *request.Executor) {
	f := e.Stats()
	// Kinds are reads, writes and others; each has its own histogram.
	for k := range request.Kinds {
		labels, values := []string{"protocol", "kind"}, []string{protocol, k.String()}
		t := &f.Kinds[k]
		m.send(prometheus.CounterValue, "coordinator_requests_total", "Requests that this node coordinated.",
			float64(t.Count.Load()), labels, values)
		// The count is exact, the histogram a sample.
		m.scaled("coordinator_request_seconds", "Duration of requests. One in eight reads and writes is measured, "+
			"and counts for eight.",
			t, labels, values)
	}
	for _, r := range []struct {
		result string
		count  int64
	}{{"applied", f.Applied.Load()}, {"not_applied", f.NotApplied.Load()}, {"failed", f.Failed.Load()}} {
		m.send(prometheus.CounterValue, "coordinator_cas_total", "Conditional changes by what became of them.",
			float64(r.count),
			[]string{"protocol", "result"}, []string{protocol, r.result})
	}
}

// answered collects the requests of clients of the Tables server. Statuses are counted by their first digit. Every kind
// of operation has a histogram, also one that no client has used.
func (c *Collector) answered(m sink) {
	// Digits 0, 1 and 3 are not answers of the server, and appear only if they occur. The series of one kind share one
	// label, so that a dashboard can add them.
	for k := range operation.Kinds {
		for digit := range operation.Digits {
			n := c.o.Answered.Answers(k, digit)
			if n == 0 && (digit < 2 || digit == 3) { // the server answers with these only by mistake
				continue
			}
			m.send(prometheus.CounterValue, "tables_requests_total", "Requests that the Tables server answered.",
				float64(n), []string{"operation", "status"}, []string{k.String(), fmt.Sprintf("%dxx", digit)})
		}
		m.histogram("tables_request_seconds", "Duration of Azure Tables requests.", c.o.Answered.Latency(k),
			[]string{"operation"}, []string{k.String()})
	}
}

// functions collects the figures of user-defined functions. They are zero until the node serves clients. Languages are
// not distinguished, except that idle instances exist for WebAssembly only. Compilation is asynchronous to requests;
// waits and refusals of memory are of both calls and compilations.
func (c *Collector) functions(m sink) {
	s := c.o.Functions()
	// A compilation that is refused is also ended.
	m.counter("function_compilations", "Functions that were compiled, with those that were refused.",
		s.Compilations.Ended)
	m.counter("function_compilations_refused",
		"Functions that could not be compiled, and requests that found too many waiting.", s.Compilations.Refused)
	m.gauge("function_compiling", "Functions that are being compiled.", int64(s.Compilations.Running))
	m.send(prometheus.CounterValue, "function_compilation_seconds_total", "Duration of the compilations of functions.",
		s.Compilations.Time.Seconds(), nil, nil)
	m.gauge("function_compiled", "Compiled functions that are kept.", int64(s.Compilations.Kept))
	m.gauge("function_compiled_bytes", "Memory of the compiled functions that are kept.", s.Compilations.Bytes)
	m.gauge("function_idle_instances", "Instances of WebAssembly modules that wait for calls.", int64(s.Idle))
	m.gauge("function_idle_instances_bytes", "Memory of the instances of WebAssembly modules that wait for calls.",
		s.IdleBytes)
	m.gauge("function_memory_peak_bytes", "The most memory that functions have reserved since the start.",
		s.Memory.Peak)
	m.counter("function_memory_waits", "How often calls and compilations of functions waited for memory.",
		s.Memory.Waits)
	m.counter("function_memory_refused", "Calls and compilations of functions that got no memory in time.",
		s.Memory.Refused)
	m.counter("function_memory_oversized",
		"Calls and compilations of functions that needed more memory than one may use.", s.Memory.Oversized)
}

// traces collects the disk space of traces. It is the last measurement, as measuring costs a look at the files. The
// size is the last measured one and may be older than the collection: this method does not measure.
func (c *Collector) traces(m sink) {
	stored, refused := c.o.Traces.Stats()
	m.gauge("trace_stored_bytes", "Disk space of the traces on this node when it was last measured.", stored)
	m.counter("trace_refused", "Traces that were not stored, because trace_storage_limit was reached.", refused)
}
