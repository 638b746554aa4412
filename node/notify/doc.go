// Package notify notifies the clients of a node of changes of the schema, of the ring and of the state of other nodes.
//
// It does not react to changes for the node itself: node/assembly does.
package notify
