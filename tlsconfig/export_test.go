package tlsconfig

// Check does what the watcher of a Source does periodically.
func Check(s *Source) { s.check() }
