// Package execution holds the context that all executors of statements share: parameters, time, timeouts, consistency
// levels, the services of this node, and the pages of its virtual tables.
//
// It executes nothing: query/read reads rows with it, query/write writes them, and package query does everything else.
//
//	protocol server ─▶ Params ──▶ Moment, Timeouts ──┐
//	                                                 ├─▶ one execution: its Environment of functions,
//	node ─────────────────────────▶ Services ────────┘   its guard, its masks
package execution
