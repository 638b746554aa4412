// Package execution contains what the execution of a statement has, whatever the statement does: its parameters, its
// time, and the services of this node.
//
// It executes nothing: query/read reads rows with it, query/write writes them, and package query does everything else.
//
//	protocol server ─▶ Params ──▶ Moment, Timeouts ──┐
//	                                                 ├─▶ one execution: its Environment of functions, its guard, its masks
//	node ─────────────────────────▶ Services ────────┘
package execution
