package tlsconfig

// Check does what the watcher of a Source does regularly.
func Check(s *Source) { s.check() }
