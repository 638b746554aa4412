// Package config contains the options of a node: their defaults, their names and forms in cassandra.yaml, and what is
// refused.
//
// It opens nothing but the file of the options, except that ResolveNames and FindSeeds look up host names. Package node
// starts a node with the options, and package cmd/cqld sets some of them from its flags.
//
//	defaults ─▶ file ─▶ environment ─▶ flags ─▶ ResolveNames ─▶ Validate ─▶ DivideMemory ─▶ node.Open
package config
