package fence

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// TestFence enters and leaves requests while others wait: a wait ends when all requests that entered before it have
// left, and every wait ends.
func TestFence(t *testing.T) {
	var f Fence
	var all sync.WaitGroup
	var entered, waits, ended atomic.Int64
	var mu sync.Mutex
	inside := map[int64]bool{}
	for w := range 8 {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 0))
			for range 3000 {
				if rnd.IntN(20) > 0 {
					g := f.Enter()
					mu.Lock()
					n := entered.Add(1)
					inside[n] = true
					mu.Unlock()
					mu.Lock()
					delete(inside, n)
					mu.Unlock()
					f.Leave(g)
					continue
				}
				mu.Lock()
				before := make([]int64, 0, len(inside))
				for n := range inside {
					before = append(before, n)
				}
				mu.Unlock()
				waits.Add(1)
				f.Wait(func() {
					ended.Add(1)
					mu.Lock()
					defer mu.Unlock()
					for _, n := range before {
						if inside[n] {
							t.Errorf("request %d is still under way", n)
						}
					}
				})
			}
		})
	}
	all.Wait()
	if waits.Load() != ended.Load() || waits.Load() == 0 {
		t.Errorf("%d of %d waits ended", ended.Load(), waits.Load())
	}
}
