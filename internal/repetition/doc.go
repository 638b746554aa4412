// Package repetition generates CQL statements in which one production of the grammar is repeated any number of times.
// Tests use them to assert that time and memory of each layer grow at most linearly with the size of a statement.
package repetition
