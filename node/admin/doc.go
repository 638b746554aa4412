// Package admin implements the operations of the control port: what operators do with a running node through `cqld
// ctl`. Each group of operations is a type with the parts of the node that it uses, and its methods are the handlers
// that package node/control calls. Commands contains all groups.
//
// It contains no protocol: node/control has the names, the arguments and the results of the operations. It performs no
// long-running work itself; repairs, movements, builds and compactions are the work of their packages, shown as jobs.
package admin
