package memory

import "slices"

// enqueueLocked makes a wait for memory of a size. If the queue is full, another account makes room, or enqueueLocked
// returns false. mu is held, and a does not wait. size is the size after the wait.
func (p *Pool) enqueueLocked(a *Account, size int64) bool {
	if len(p.queue) >= p.o.Waiters && !p.displaceLocked(a) {
		return false
	}
	if a.waiter == nil {
		a.waiter = p.o.NewWaiter()
	}
	p.waits.Add(1)
	a.size, a.waiting, a.err, a.since = size, true, nil, p.o.Clock.Monotonic()
	a.round++
	p.queued.Add(1) // before the attempt of grantLocked: a later Return sees it
	p.queue = append(p.queue, a)
	return true
}

// displaceLocked refuses the last account of the role and address with the most waiting requests, if they have more
// waiting requests than the role and address of a would have. Clients with many waiting requests lose one before others
// are refused. mu is held.
func (p *Pool) displaceLocked(a *Account) bool {
	// The new account counts as waiting.
	owned := map[*Owner]int64{a.origin.Role: 1}
	owned[a.origin.Address]++
	for _, o := range p.queue {
		owned[o.origin.Role]++
		owned[o.origin.Address]++
	}
	// Requests without a role have no common owner.
	owned[nil] = 0
	// Ranks are computed as for memory, but from numbers of requests.
	waiting := func(o Origin) rank { return rankOf(owned[o.Role], owned[o.Address]) }
	most, worst := waiting(a.origin), (*Account)(nil)
	for _, o := range p.queue {
		// Of equals, the last one is chosen, because it has waited for the shortest time.
		if r := waiting(o.origin); most.less(r) || worst != nil && r == most {
			most, worst = r, o
		}
	}
	if worst == nil {
		return false
	}
	p.endLocked(worst, ErrExhausted)
	return true
}

// grantLocked gives memory to accounts that wait: to those whose owners have least, as long as it fits, and then the
// privilege to the one whose owners have waited longest for a turn. It is called at each return of memory and each new
// wait. mu is held. Each round ends one wait, so the loop ends.
func (p *Pool) grantLocked() {
	for len(p.queue) > 0 {
		// The large part is served first, because a small account may use either part.
		if a := p.firstLocked(false); a != nil && p.takeLarge(a.needs(a.size)) {
			a.grow(a.size, true)
			p.turnLocked(a)
			continue
		}
		if a := p.firstLocked(true); a != nil && p.takeSmall(a.size-a.held.Load()) {
			a.grow(a.size, false)
			p.turnLocked(a)
			continue
		}
		// The second condition is invariant 2 of Pool: the reserve must be whole.
		if p.privileged.Load() != nil || p.large.Load() > p.largeMax() {
			return
		}
		a := p.nextPrivilegedLocked()
		if a == nil {
			return
		}
		p.privileged.Store(a)
		// No check is needed, because Reserve suffices for any account.
		a.exceed(a.size)
		p.turnLocked(a)
	}
}

// standing is the place of an account among those that wait: the smallest is first. It is compared in this order: held,
// then turn.
type standing struct{ held, turn rank }

// firstLocked returns the account that is given memory next: that whose owners have least of it, then that whose owners
// had the earliest turn, then that which has waited longest. If small, only accounts of the small part are considered.
// It looks at each account in the queue, of at most Waiters.
func (p *Pool) firstLocked(small bool) (first *Account) {
	var least standing
	for _, a := range p.queue {
		if a.flow.stopped() || small && !a.fitsSmall(a.size) {
			continue
		}
		s := standing{a.origin.rankHeld(), a.origin.rankTurn()}
		if first == nil || s.held.less(least.held) || s.held == least.held && s.turn.less(least.turn) {
			first, least = a, s
		}
	}
	return first
}

// nextPrivilegedLocked returns the account whose owners had the earliest turn, and of several that which has waited
// longest. Memory does not count: the privilege is for those that could not get any.
func (p *Pool) nextPrivilegedLocked() (first *Account) {
	var earliest rank
	for _, a := range p.queue {
		if a.flow.stopped() {
			continue
		}
		if r := a.origin.rankTurn(); first == nil || r.less(earliest) {
			first, earliest = a, r
		}
	}
	return first
}

// turnLocked ends the wait of an account that was given memory. The counter orders turns; its value has no other
// meaning.
func (p *Pool) turnLocked(a *Account) {
	p.turn++
	// Both owners are last in the order of turns now.
	for _, o := range []*Owner{a.origin.Role, a.origin.Address} {
		if o != nil {
			o.turn = p.turn
		}
	}
	p.endLocked(a, nil)
}

// endLocked ends the wait of an account. It signals exactly once. mu is held.
func (p *Pool) endLocked(a *Account, err error) {
	i := slices.Index(p.queue, a)
	p.queue = slices.Delete(p.queue, i, i+1)
	p.queued.Add(-1)
	a.waiting, a.err = false, err
	a.waiter.Signal()
}
