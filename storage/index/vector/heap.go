package vector

// candidate is a node and its distance from the vector of a search or an insertion.
type candidate struct {
	distance float32
	node     *node
}

// heap is a binary heap. Its first element is the nearest, or, if farthest is set, the farthest one. The zero value is
// empty. Equal distances are in no order.
type heap struct {
	items    []candidate
	farthest bool
}

// before reports whether item i belongs nearer to the root than item j.
func (h *heap) before(i, j int) bool {
	if h.farthest {
		i, j = j, i
	}
	return h.items[i].distance < h.items[j].distance
}

// push adds a candidate.
func (h *heap) push(c candidate) {
	h.items = append(h.items, c)
	for i := len(h.items) - 1; i > 0; {
		// The element rises until its parent belongs before it.
		parent := (i - 1) / 2
		if !h.before(i, parent) {
			return
		}
		h.items[i], h.items[parent] = h.items[parent], h.items[i]
		i = parent
	}
}

// pop removes and returns the first element of a heap that is not empty.
func (h *heap) pop() candidate {
	first, last := h.items[0], len(h.items)-1
	h.items[0] = h.items[last]
	// Heaps keep their memory, so the slot is cleared: otherwise it would keep a deleted node reachable.
	h.items[last] = candidate{}
	h.items = h.items[:last]
	for i := 0; ; {
		// The last element sinks from the root, on the side of the child that belongs nearer to the root.
		child := 2*i + 1
		if child >= last {
			return first
		}
		if child+1 < last && h.before(child+1, child) {
			child++
		}
		if !h.before(child, i) {
			return first
		}
		h.items[i], h.items[child] = h.items[child], h.items[i]
		i = child
	}
}
