package request

import (
	"errors"

	"cqld/coordinator"
	"cqld/internal/memory"
)

// A node rejects writes as overloaded if too many bytes wait for its disk. A client that sends faster than the disk
// can write would then receive errors, and cqlsh's COPY aborts after some of them. A write therefore reserves its
// bytes in a separate pool before it is sent to replicas. While it waits there, the server reads no further requests
// from the connection. The pool is smaller than the bytes that may wait for the disk: the rest is for writes of other
// coordinators, and for completed writes that still count because their commit group is not complete.

// RoomForWrites returns the pool for a node whose storage rejects writes beyond pending bytes. It sets the limits and
// waiters of o.
func RoomForWrites(pending int64, o memory.Options) *memory.Pool {
	o.Limits = memory.Of(pending / roomShare)
	o.Waiters, o.Stalls = roomWaiters, true
	return memory.New(o)
}

// errNoRoom is the error of a write that has waited too long. Clients receive it as OVERLOADED, as if storage had
// rejected the write.
var errNoRoom = &coordinator.Overloaded{What: "too many bytes wait for the disk"}

// enterRoom reserves the bytes of a write in c.room, and waits until they are free. A write larger than the largest
// reservation, which storage accepts if nothing else waits, reserves the largest amount. The error is errNoRoom, or
// the error of the client's context. The caller must call leaveRoom, even after an error.
func (e *Executor) enterRoom(r *Request, c *Call, req *coordinator.WriteRequest) error {
	pool := e.o.Room
	if pool == nil {
		return nil
	}
	// Most writes do not wait and need no owner, which would cost a look-up.
	pool.Open(&c.room, memory.Origin{}, r.Memory.Flow())
	n := min(coordinator.WriteSize(req.Mutations...), c.room.Max())
	if c.room.TryGrow(n) {
		return nil
	}
	c.room.Close()
	// Account a waiting write to its role and address.
	c.owners = memory.Origin{Role: pool.Role(r.Principal.Name), Address: pool.Address(r.Client.Addr())}
	pool.Open(&c.room, c.owners, r.Memory.Flow())
	// A waiting request does not compute and needs no spare memory.
	r.Memory.Rest()
	r.Memory.ReturnSpare()
	ctx, cancel := e.WithDeadline(r, 0)
	defer cancel()
	err := c.room.Grow(ctx, n)
	// While the client's context has not ended, every error means that the wait was too long: for the pool, or for the
	// request's deadline.
	if errors.Is(err, memory.ErrExhausted) || err != nil && r.Context.Err() == nil {
		return errNoRoom
	}
	return err
}

// leaveRoom returns what enterRoom has reserved. It may be called without enterRoom having reserved any.
func (e *Executor) leaveRoom(c *Call) {
	if e.o.Room == nil {
		return
	}
	c.room.Close()
	if c.owners != (memory.Origin{}) {
		e.o.Room.Release(c.owners.Role)
		e.o.Room.Release(c.owners.Address)
		c.owners = memory.Origin{}
	}
}
