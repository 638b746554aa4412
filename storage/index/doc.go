// Package index keeps entries derived from rows: it implements storage.Maintainer.
//
// Partitions is the partition index. Rows are stored in the order of their tokens; the partition index keeps the
// partition keys of some tables in the order of their bytes as well, and lists them.
//
// The package writes entries and marks through storage.Host and storage.Derived, and knows neither Pebble nor the
// layout of keys.
package index
