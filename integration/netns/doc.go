// Package netns runs a test again in a network namespace of its own, where packets between two addresses can be dropped
// without an error for the sender, and in one direction, as by a broken network. The network of the machine does not
// change.
//
// It needs Linux and the permission to create a namespace. The packets are dropped by the program of ../firewall, which
// is a module of its own.
package netns
