package env

import "context"

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

// WaitOr implements WaiterOr.
func (w channelWaiter) WaitOr(done <-chan struct{}) (signaled bool) {
	select {
	case <-w:
		return true
	case <-done:
		return false
	}
}

// WaiterOr is a Waiter that can wait for the end of a context as well. When it returns false, Wait must still be called.
type WaiterOr interface {
	WaitOr(done <-chan struct{}) (signaled bool)
}

// WaitOrCancel waits for the event that w waits for. When ctx ends first, it calls cancel, which must make the event
// happen soon, and waits on.
func WaitOrCancel(ctx context.Context, w Waiter, cancel *Cancel) {
	if or, ok := w.(WaiterOr); ok && cancel != nil && ctx.Done() != nil {
		if or.WaitOr(ctx.Done()) {
			return
		}
		cancel.Cancel()
	}
	w.Wait()
}
