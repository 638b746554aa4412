package index

import (
	"runtime"
	"testing"
)

// Of many goroutines that use a reservation, one holds it at a time, and all get it, in the order of arrival.
func TestReservationIsHeldByOne(t *testing.T) {
	var r reservation
	r.acquire()
	const n = 16
	order := make(chan int, n)
	holders := 0 // guarded by r
	for i := range n {
		go func() {
			r.acquire()
			if holders++; holders != 1 {
				t.Errorf("%d hold the reservation", holders)
			}
			order <- i
			holders--
			r.release()
		}()
		for queued := 0; queued <= i; runtime.Gosched() {
			r.mu.Lock()
			queued = len(r.waiting)
			r.mu.Unlock()
		}
	}
	r.release()
	for want := range n {
		if got := <-order; got != want {
			t.Errorf("goroutine %d has the reservation before %d", got, want)
		}
	}
	r.acquire() // it is free again
	r.release()
}
