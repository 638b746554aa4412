package env

import "context"

// Waiter lets one goroutine at a time wait for one event. In the simulation, other events run in the meantime.
type Waiter interface {
	// Wait returns after Signal was called. The Waiter can then be used again.
	Wait()
	// Signal is called once for each Wait, from any goroutine and possibly before Wait.
	Signal()
}

// channelWaiter is the Waiter of production. The goroutine blocks on a channel.
type channelWaiter chan struct{}

// NewChannelWaiter returns a Waiter that blocks its goroutine.
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

// WaiterOr is a Waiter that can also wait for the end of a context. After WaitOr has returned false, Wait must still be
// called.
type WaiterOr interface {
	WaitOr(done <-chan struct{}) (signaled bool)
}

// WaitOrCancel waits for the event of w. If ctx ends first, it calls cancel, which must make the event happen soon, and
// continues to wait.
func WaitOrCancel(ctx context.Context, w Waiter, cancel *Cancel) {
	if or, ok := w.(WaiterOr); ok && cancel != nil && ctx.Done() != nil {
		if or.WaitOr(ctx.Done()) {
			return
		}
		cancel.Cancel()
	}
	w.Wait()
}
