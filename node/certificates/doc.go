// Package certificates opens the certificate files of a node, for its clients, the other nodes and the control port,
// and reads them again when an operator asks for it.
//
// It does not decide who is authenticated by them: package tlsconfig has the policies, messaging/internodetls the rules
// between nodes.
package certificates
