// Package memory divides the memory of a node. Detect finds the figure: the smallest of the limits of the process'
// cgroups and the machine's memory. Divide gives each use of memory its part, and a Pacer sets the pace of Go's
// collector by the same figure.
package memory
