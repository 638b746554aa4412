// Package admin implements the operations of the control port: what operators do with a running node through `cqld
// ctl`. Each group of operations is a type with the parts of the node that it uses, and its methods are the handlers
// that package node/control calls. Commands contains all groups.
//
// It contains no protocol: node/control has the names, the arguments and the results of the operations. It performs no
// long-running work itself; repairs, movements, builds and compactions are the work of their packages, shown as jobs.
//
//	cqld ctl ─▶ control.Server ─▶ Commands.X.Method(ctx, args, report) ─▶ part of the node
//	                                   │ long-running ─▶ Jobs.start ─▶ jobs.Registry ─▶ goroutine of the node
//
// A handler validates names first and returns *control.Error with the code Invalid for a typing error, Refused for what
// is not possible now, and Failed for what was tried. Any other error is an error of the node. Messages are nodetool's
// where it has one, because scripts of operators compare them.
//
// Handlers run concurrently, one goroutine for each request of an operator. They read the newest metadata that this
// node has applied; an operation of the cluster is proposed to the metadata log and followed there.
package admin
