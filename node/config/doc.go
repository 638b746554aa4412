// Package config contains the options of a node: their defaults, their names and forms in cassandra.yaml, and what is
// refused.
//
// It opens nothing but the file of the options, except that ResolveNames and FindSeeds look up host names. Package node
// starts a node with the options, and package cmd/cqld sets some of them from its flags.
//
//	defaults ─▶ file ─▶ environment ─▶ flags ─▶ ResolveNames ─▶ Validate ─▶ DivideMemory ─▶ node.Open
//
// An option is in one of four classes, by its name in the file (reader.set):
//
//	known     has a meaning in cqld, under Cassandra's name if Cassandra has such an option   settings
//	renamed   a known one under the name of an older version, whose value is converted        renamedOptions
//	promised  promises what cqld does not do; only values that ask for nothing are accepted   promisedOptions
//	inert     concerns machinery that cqld does not have; any value is accepted               inertNames
//
// A file of Cassandra 3.11 to 6 with default values is therefore accepted as it is, with one warning, and an option
// that a user relies on is either obeyed or refused. Every other name is an error, so that a typing error does not
// start a node with a default.
package config
