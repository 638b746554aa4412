package env

// Waiter lets one goroutine at a time wait for one event. The simulation's lets other events happen meanwhile.
type Waiter interface {
	// Wait returns after Signal was called; then the Waiter can be used again.
	Wait()
	// Signal is called once for each Wait, from anywhere and possibly before it.
	Signal()
}

// channelWaiter is the Waiter of production: the goroutine sleeps on a channel.
type channelWaiter chan struct{}

// NewChannelWaiter is a Waiter that blocks its goroutine.
func NewChannelWaiter() Waiter { return make(channelWaiter, 1) }

func (w channelWaiter) Wait()   { <-w }
func (w channelWaiter) Signal() { w <- struct{}{} }
