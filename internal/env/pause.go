package env

import "time"

// Pause waits for d, but no longer than until wake has a value; nil means that nothing shortens it. It returns false
// when stop is closed.
func Pause(c Clock, d time.Duration, wake, stop <-chan struct{}) bool {
	elapsed := make(chan struct{})
	timer := c.After(d, func() { close(elapsed) })
	select {
	case <-elapsed:
		return true
	case <-wake:
		timer.Stop()
		return true
	case <-stop:
		timer.Stop()
		return false
	}
}
