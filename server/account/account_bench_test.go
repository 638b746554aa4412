package account

import (
	"context"
	"net/netip"
	"testing"

	"cqld/internal/memory"
)

// BenchmarkPointRead reserves and returns what a read of one row does: the request, the page and the reply.
func BenchmarkPointRead(b *testing.B) {
	pool := memory.New(memory.Options{Limits: memory.Of(192 << 20)})
	b.RunParallel(func(pb *testing.PB) {
		var a Account
		a.Init(pool, 1<<20)
		a.Join(pool.Address(netip.MustParseAddr("127.0.0.1")), nil, nil)
		var r memory.Account
		const page, row, reply = 64 << 10, 200, 150
		for pb.Next() {
			charge, ok := a.Reserve(400)
			a.Open(&r)
			if !ok || r.Grow(context.Background(), page) != nil || r.Resize(context.Background(), page, row) != nil {
				b.Error("no memory")
			}
			r.Spare(row)
			charge = charge.Plus(a.Convert(&r, reply))
			r.Close()
			a.Release(charge)
		}
	})
}
