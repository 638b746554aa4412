// Package clients opens and closes the servers for the clients of a node: of CQL and of Azure Tables. It knows whether
// the node serves clients, and why not.
//
// It does not construct the servers, which package node does, and does not know what requests mean.
package clients
