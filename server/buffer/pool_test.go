package buffer

import "testing"

// A slice is reused for requests of more than half its size.
func TestPoolLendsEnough(t *testing.T) {
	var p Pool
	for n := 1; n <= 4<<20; n += n/3 + 1 {
		b := p.Sized(n)
		if len(b) < n || n > Large && n <= Large<<(sizes-1) && len(b) >= 2*n {
			t.Errorf("Sized(%d) returns %d bytes", n, len(b))
		}
		p.Put(b)
	}
	p.Put(make([]byte, Large-1)) // too small for any use
	p.Put(make([]byte, 3*Large)) // serves 2 × Large
	for _, n := range []int{1, Large, 2 * Large, 3 * Large} {
		if b := p.Sized(n); len(b) < n {
			t.Errorf("Sized(%d) returns %d bytes", n, len(b))
		}
	}
}
