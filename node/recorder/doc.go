// Package recorder converts what the clients and operators of a node do to entries of the audit log: attempts to log
// in, requests of Azure Tables, and operations of the control port. Package audit writes them.
package recorder
