package request

import (
	"errors"

	"cqld/coordinator"
	"cqld/internal/memory"
)

// A node refuses a write as overloaded if too many bytes wait for its disk. A client that sends faster than the disk
// writes would have a part of its requests refused, and cqlsh's COPY ends with an error after some of them. So a
// write reserves its bytes in a pool of its own before it is sent to replicas: it waits there, and meanwhile the
// connection is read no further. The pool is smaller than what may wait for the disk: the rest is for writes of other
// coordinators, and for those that are complete while the group in which they were written still counts.

// RoomForWrites returns the pool for a node whose storage refuses writes beyond pending bytes. The limits and waiters
// of o are set here.
func RoomForWrites(pending int64, o memory.Options) *memory.Pool {
	o.Limits = memory.Of(pending / roomShare)
	o.Waiters, o.Stalls = roomWaiters, true
	return memory.New(o)
}

// errNoRoom is the error of a write that has waited too long. Clients receive it as OVERLOADED, as if storage had
// refused the write.
var errNoRoom = &coordinator.Overloaded{What: "too many bytes wait for the disk"}

// enterRoom reserves the bytes of a write in c.room, and waits until they are free. A write of more bytes than any may
// reserve, which storage accepts when nothing else waits, reserves as many as it may. The error is errNoRoom, or the
// error of the client's context. leaveRoom must follow, also after an error.
func (e *Executor) enterRoom(r *Request, c *Call, req *coordinator.WriteRequest) error {
	pool := e.o.Room
	if pool == nil {
		return nil
	}
	// Most writes do not wait, and need no owners in the pool, which take a look-up.
	pool.Open(&c.room, memory.Origin{}, r.Memory.Flow())
	n := min(coordinator.WriteSize(req.Mutations...), c.room.Max())
	if c.room.TryGrow(n) {
		return nil
	}
	c.room.Close()
	// A write that must wait is accounted to its role and address.
	c.owners = memory.Origin{Role: pool.Role(r.Principal.Name), Address: pool.Address(r.Client.Addr())}
	pool.Open(&c.room, c.owners, r.Memory.Flow())
	// A request that waits does not compute, and needs no spare memory meanwhile.
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
