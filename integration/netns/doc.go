// Package netns lets a test cut its servers off from each other: it runs the test again in a network
// namespace of its own, where packets between two addresses can be dropped by nftables, silently and in
// one direction, as a broken network drops them. The machine's own network is not touched.
//
// It needs Linux and the right to make a namespace.
package netns
