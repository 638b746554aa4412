package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"cqld/query"
)

// functionStats returns the figures of user-defined functions, which are zero until the node serves clients.
func (n *Node) functionStats() (s query.FunctionStats) {
	if n.servers.HasOpened() {
		s = n.processor.FunctionStats()
	}
	return s
}

// functions collects the figures of user-defined functions.
func (c figuresCollector) functions(m metricSink) {
	s := c.n.functionStats()
	m.counter("functions_compilations_total", "Functions that were compiled, with those that were refused.",
		s.Compilations.Ended)
	m.counter("functions_compilations_refused_total",
		"Functions that could not be compiled, and requests that found too many waiting.", s.Compilations.Refused)
	m.gauge("functions_compiling", "Functions that are being compiled.", int64(s.Compilations.Running))
	m.send(prometheus.CounterValue, "functions_compilation_seconds_total", "Duration of the compilations of functions.",
		s.Compilations.Time.Seconds(), nil, nil)
	m.gauge("functions_compiled", "Compiled functions that are kept.", int64(s.Compilations.Kept))
	m.gauge("functions_compiled_bytes", "Memory of the compiled functions that are kept.", s.Compilations.Bytes)
	m.gauge("functions_idle_instances", "Instances of WebAssembly modules that wait for calls.", int64(s.Idle))
	m.gauge("functions_idle_instances_bytes", "Memory of the instances of WebAssembly modules that wait for calls.",
		s.IdleBytes)
	m.gauge("functions_memory_peak_bytes", "The most memory that functions have reserved since the start.",
		s.Memory.Peak)
	m.counter("functions_memory_waits_total", "How often calls and compilations of functions waited for memory.",
		s.Memory.Waits)
	m.counter("functions_memory_refused_total", "Calls and compilations of functions that got no memory in time.",
		s.Memory.Refused)
	m.counter("functions_memory_oversized_total",
		"Calls and compilations of functions that needed more memory than one may use.", s.Memory.Oversized)
}
