package memory

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestReturnWakesOnlyWhatMayContinue pauses ten goroutines in Calm while another account waits. Memory that is returned
// while the pool is still full wakes none of them; once it is calm, all of them continue.
func TestReturnWakesOnlyWhatMayContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const readers = 10
		p, _ := testPool(Limits{Bytes: 10 << 20, Reserve: 5 << 20}) // paused from 8 MiB
		full, ok := p.Reserve(8 << 20)
		if !ok {
			t.Fatal("no memory for the others")
		}
		var pieces []Held
		for range 100 {
			h, ok := p.Reserve(4 << 10)
			if !ok {
				t.Fatal("no memory for small requests")
			}
			pieces = append(pieces, h)
		}
		var asked, left atomic.Int64
		for range readers {
			go func() {
				p.Calm(new(Pause), func() bool { asked.Add(1); return false })
				left.Add(1)
			}()
		}
		var accounts [2]Account // one has the privilege, the other one waits
		for i := range accounts {
			p.Open(&accounts[i], Origin{}, nil)
			go func() {
				if err := accounts[i].Grow(t.Context(), 4<<20); err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		if n := p.Stats().Waiting; n != 1 || asked.Load() != readers {
			t.Fatalf("%d accounts wait, and %d readers are paused", n, asked.Load())
		}
		for _, h := range pieces {
			p.Return(h)
			synctest.Wait()
		}
		if n := asked.Load(); n != readers || left.Load() != 0 {
			t.Errorf("%d wake-ups of paused readers in vain, %d continued", n-readers, left.Load())
		}
		p.Return(full)
		for i := range accounts {
			synctest.Wait() // until the account has its memory
			accounts[i].Close()
		}
		synctest.Wait()
		if left.Load() != readers {
			t.Errorf("%d of %d readers continue in a calm pool", left.Load(), readers)
		}
	})
}
